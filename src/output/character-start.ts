import { type ByteReader, readRange } from "./byte-reader.js";
import { CONTINUATION_MOST, orphaned, unfinished } from "./utf8.js";

/**
 * The nearest offset at or before this one that is not inside a character. Where older bytes were dropped it
 * is the first that is kept, after the rest of a character that is not.
 */
export async function characterStart(read: ByteReader, offset: number, first: number): Promise<number> {
  if (offset <= first) {
    if (first === 0) return 0;
    return first + orphaned((await readRange(read, { first, end: first + CONTINUATION_MOST })).bytes);
  }
  const from = Math.max(first, offset - CONTINUATION_MOST);
  const around = await readRange(read, { first: from, end: offset + 1 });
  const here = offset - around.offset;
  if (orphaned(around.bytes.subarray(here)) === 0) return offset;
  return offset - unfinished(around.bytes.subarray(0, here));
}
