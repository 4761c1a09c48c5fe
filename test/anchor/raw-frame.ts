/** Frames of any shape, right or wrong: what the codec of the product would refuse to write. */
export function rawFrame(type: number, ...fields: Buffer[]): Buffer {
  const body = Buffer.concat(fields);
  const head = Buffer.alloc(5);
  head.writeUInt32LE(1 + body.length, 0);
  head.writeUInt8(type, 4);
  return Buffer.concat([head, body]);
}

export function rawField(tag: number, value: Buffer | string | number | bigint): Buffer {
  const bytes =
    typeof value === "number" || typeof value === "bigint" ? eightBytes(BigInt(value)) : Buffer.from(value);
  const head = Buffer.alloc(5);
  head.writeUInt8(tag, 0);
  head.writeUInt32LE(bytes.length, 1);
  return Buffer.concat([head, bytes]);
}

/** A frame as it is, with further fields at its end. */
export function withFields(frame: Buffer, ...fields: Buffer[]): Buffer {
  const longer = Buffer.concat([frame, ...fields]);
  longer.writeUInt32LE(longer.length - 4, 0);
  return longer;
}

function eightBytes(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}
