/**
 * Decodes UTF-8 chunks to the same text as all bytes at once. A chunk is decoded up to the first incomplete character.
 * A lead byte starts a new character in any state, so a cut before one never changes the meaning of the bytes, valid or
 * not.
 */
export class Utf8Decoder {
  #carry: Buffer = Buffer.alloc(0);

  push(chunk: Uint8Array): string {
    const view = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const bytes = this.#carry.length === 0 ? view : Buffer.concat([this.#carry, view]);
    const whole = bytes.length - incompleteTailBytes(bytes);
    // Copied, because the caller may reuse the chunk.
    this.#carry = whole === bytes.length ? EMPTY : Buffer.from(bytes.subarray(whole));
    return bytes.toString("utf8", 0, whole);
  }

  /** Returns replacement characters for an incomplete character at the end of the stream. */
  end(): string {
    const rest = this.#carry.toString("utf8");
    this.#carry = EMPTY;
    return rest;
  }
}

const EMPTY = Buffer.alloc(0);
const MAX_CHARACTER_BYTES = 4;
/** Most bytes of a character after its first. */
export const MAX_CONTINUATION_BYTES = MAX_CHARACTER_BYTES - 1;

/** Counts the bytes at the end that start a character but do not complete it. */
export function incompleteTailBytes(bytes: Uint8Array): number {
  for (let back = 1; back < MAX_CHARACTER_BYTES && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) return back < sequenceLength(byte) ? back : 0;
  }
  return 0;
}

/** Counts the bytes at the start that may be the rest of a character whose start is lost. */
export function orphanedHeadBytes(bytes: Uint8Array): number {
  let count = 0;
  while (count < MAX_CONTINUATION_BYTES && isContinuation(bytes[count])) count += 1;
  return count;
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && byte >= 0x80 && byte < 0xc0;
}

function sequenceLength(lead: number): number {
  if (lead < 0xe0) return 2;
  return lead < 0xf0 ? 3 : 4;
}
