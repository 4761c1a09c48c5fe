import { type ByteReader, readRange } from "./byte-reader.js";
import { MAX_CONTINUATION_BYTES, orphanedHeadBytes, incompleteTailBytes } from "../text/utf8.js";

/**
 * The nearest offset at or before this one that is not inside a character. Where older bytes were dropped it
 * is the first that is kept, after the rest of a character that is not.
 */
export async function alignToCharacter(read: ByteReader, offset: number, first: number): Promise<number> {
  if (offset <= first) {
    if (first === 0) return 0;
    return (
      first + orphanedHeadBytes((await readRange(read, { first, end: first + MAX_CONTINUATION_BYTES })).bytes)
    );
  }
  const from = Math.max(first, offset - MAX_CONTINUATION_BYTES);
  const around = await readRange(read, { first: from, end: offset + 1 });
  const here = offset - around.offset;
  if (orphanedHeadBytes(around.bytes.subarray(here)) === 0) return offset;
  return offset - incompleteTailBytes(around.bytes.subarray(0, here));
}
