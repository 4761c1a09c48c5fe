import { BadInput, HoldfastError } from "../../errors.js";
import { maxFrameBytes } from "./messages.js";

/** `u32 length, u8 type`, then fields of `u8 tag, u32 length, value`; little-endian throughout. */
const FRAME_HEADER_BYTES = 5;
const FIELD_HEADER_BYTES = 5;
const UINT32_RANGE = 0x1_0000_0000;
/** With a higher high word, a u64 is not a safe integer. */
const MAX_SAFE_HIGH_WORD = 0x1f_ffff;

/** The received bytes violate the protocol. The connection must be closed. */
export class MalformedFrame extends HoldfastError {
  constructor(what: string) {
    super("ANCHOR_MALFORMED_FRAME", `the anchor connection carried ${what}; it will be closed`);
  }
}

export interface AnchorFrame {
  readonly type: number;
  /** The encoded fields; a view of the received bytes. */
  readonly body: Buffer;
}

/** Splits a byte stream into frames. It knows only the maximal length of each type. */
export class FrameDecoder {
  #parts: Buffer[] = [];
  #bufferedBytes = 0;

  /** Returns all frames that `chunk` completes, in order. After a MalformedFrame the stream cannot be resumed. */
  push(chunk: Buffer): AnchorFrame[] {
    const frames: AnchorFrame[] = [];
    let bytes = chunk;
    if (this.#bufferedBytes > 0) {
      this.#parts.push(chunk);
      this.#bufferedBytes += chunk.length;
      if (this.#bufferedBytes < this.#bytesNeeded()) return frames;
      bytes = this.#takeBuffered();
    }
    let at = 0;
    while (bytes.length - at >= FRAME_HEADER_BYTES) {
      const size = frameSize(bytes, at);
      if (bytes.length - at < size) break;
      frames.push({
        type: bytes.readUInt8(at + 4),
        body: bytes.subarray(at + FRAME_HEADER_BYTES, at + size),
      });
      at += size;
    }
    if (at < bytes.length) {
      const rest = bytes.subarray(at);
      this.#parts.push(rest);
      this.#bufferedBytes = rest.length;
    }
    return frames;
  }

  /**
   * Bytes needed before anything can be decoded. Waiting for them limits concatenation to once per frame, however small
   * the chunks are.
   */
  #bytesNeeded(): number {
    if (this.#bufferedBytes < FRAME_HEADER_BYTES) return FRAME_HEADER_BYTES;
    const first = this.#parts[0];
    if (first !== undefined && first.length >= FRAME_HEADER_BYTES) return frameSize(first, 0);
    this.#parts = [Buffer.concat(this.#parts, this.#bufferedBytes)];
    return this.#bytesNeeded();
  }

  #takeBuffered(): Buffer {
    const [first] = this.#parts;
    const whole = this.#parts.length === 1 && first ? first : Buffer.concat(this.#parts, this.#bufferedBytes);
    this.#parts = [];
    this.#bufferedBytes = 0;
    return whole;
  }
}

function frameSize(bytes: Buffer, at: number): number {
  const length = bytes.readUInt32LE(at);
  if (length === 0) throw new MalformedFrame("a frame without a type");
  const type = bytes.readUInt8(at + 4);
  if (length > maxFrameBytes(type)) throw new MalformedFrame(`a frame of ${length} bytes (type ${type})`);
  return 4 + length;
}

/** Iterates over the fields of one frame. */
export class FieldReader {
  readonly #body: Buffer;
  #nextField = 0;
  #at = 0;
  #end = 0;
  tag = 0;

  constructor(body: Buffer) {
    this.#body = body;
  }

  /** False at the end of the frame. */
  next(): boolean {
    const left = this.#body.length - this.#nextField;
    if (left === 0) return false;
    if (left < FIELD_HEADER_BYTES) throw new MalformedFrame("a cut-off field");
    const length = this.#body.readUInt32LE(this.#nextField + 1);
    if (length > left - FIELD_HEADER_BYTES) throw new MalformedFrame("a field longer than its frame");
    this.tag = this.#body.readUInt8(this.#nextField);
    this.#at = this.#nextField + FIELD_HEADER_BYTES;
    this.#end = this.#at + length;
    this.#nextField = this.#end;
    return true;
  }

  int(): number {
    this.#requireInteger();
    const high = this.#body.readUInt32LE(this.#at + 4);
    if (high > MAX_SAFE_HIGH_WORD) throw new MalformedFrame(`a number beyond 2^53 (tag ${this.tag})`);
    return high * UINT32_RANGE + this.#body.readUInt32LE(this.#at);
  }

  id(): string {
    this.#requireInteger();
    return this.#body.readBigUInt64LE(this.#at).toString();
  }

  text(): string {
    const bytes = this.bytes();
    if (bytes.includes(0)) throw new MalformedFrame(`a NUL in a text (tag ${this.tag})`);
    // Invalid UTF-8 is replaced, because a message may quote a path that is not UTF-8.
    return bytes.toString("utf8");
  }

  bytes(): Buffer {
    return this.#body.subarray(this.#at, this.#end);
  }

  #requireInteger(): void {
    if (this.#end - this.#at !== 8)
      throw new MalformedFrame(`a number that is not 8 bytes (tag ${this.tag})`);
  }
}

const MAX_ID = 0xffff_ffff_ffff_ffffn;
/** For shorter texts, reserving the worst case (3 bytes per character) is cheaper than measuring. */
const MEASURE_FROM = 1024;

/** Builds one frame in one buffer. `what` names the field in errors about bad values. */
export class FrameEncoder {
  #bytes: Buffer;
  #position = FRAME_HEADER_BYTES;

  constructor(type: number, sizeHint = 256) {
    this.#bytes = Buffer.allocUnsafe(sizeHint);
    this.#bytes.writeUInt8(type, 4);
  }

  int(tag: number, value: number, what: string): void {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new BadInput(what, `${what} must be a whole number of 0 or more, not ${value}; nothing was sent`);
    }
    const at = this.#startField(tag, 8);
    this.#bytes.writeUInt32LE(value % UINT32_RANGE, at);
    this.#bytes.writeUInt32LE(Math.floor(value / UINT32_RANGE), at + 4);
  }

  id(tag: number, value: string, what: string): void {
    if (!/^\d{1,20}$/.test(value) || BigInt(value) > MAX_ID) {
      throw new BadInput(what, `${what} must be a 64-bit number in decimal; nothing was sent`);
    }
    const at = this.#startField(tag, 8);
    this.#bytes.writeBigUInt64LE(BigInt(value), at);
  }

  text(tag: number, value: string, what: string): void {
    if (value.includes("\0")) throw new BadInput(what, `${what} contains a NUL character; nothing was sent`);
    const room = value.length < MEASURE_FROM ? value.length * 3 : Buffer.byteLength(value);
    this.#reserve(FIELD_HEADER_BYTES + room);
    const written = this.#bytes.write(value, this.#position + FIELD_HEADER_BYTES, "utf8");
    this.#startField(tag, written);
  }

  bytes(tag: number, value: Uint8Array): void {
    const at = this.#startField(tag, value.length);
    this.#bytes.set(value, at);
  }

  finish(): Buffer {
    const type = this.#bytes.readUInt8(4);
    const limit = maxFrameBytes(type);
    if (this.#position > limit) {
      throw new BadInput(
        "size",
        `the request is ${this.#position} bytes long, but at most ${limit} are possible; nothing was sent`,
      );
    }
    this.#bytes.writeUInt32LE(this.#position - 4, 0);
    return this.#bytes.subarray(0, this.#position);
  }

  /** Writes a field's header and returns the position of its value. */
  #startField(tag: number, length: number): number {
    this.#reserve(FIELD_HEADER_BYTES + length);
    this.#bytes.writeUInt8(tag, this.#position);
    this.#bytes.writeUInt32LE(length, this.#position + 1);
    const at = this.#position + FIELD_HEADER_BYTES;
    this.#position = at + length;
    return at;
  }

  #reserve(more: number): void {
    const wanted = this.#position + more;
    if (wanted <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(wanted, this.#bytes.length * 2));
    this.#bytes.copy(grown, 0, 0, this.#position);
    this.#bytes = grown;
  }
}
