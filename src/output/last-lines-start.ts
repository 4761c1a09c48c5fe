import { defaults } from "../defaults.js";
import { type ByteRange, type ByteReader, readRange } from "./byte-reader.js";

const LINE_FEED = 0x0a;

/**
 * Where the last `count` lines of a range begin, read backwards in chunks. Null: it has fewer, and bytes before it
 * were dropped, so its first line may be a part of one.
 */
export async function findLastLinesStart(
  read: ByteReader,
  { first, end }: ByteRange,
  count: number,
): Promise<number | null> {
  if (count === 0) return end;
  let missing = count;
  // A line end at the very end is the last line's own.
  let stop = end - 1;
  while (stop > first) {
    const from = Math.max(first, stop - defaults.logChunkBytes);
    const { offset, bytes } = await readRange(read, { first: from, end: stop });
    for (let at = lineFeedBefore(bytes, bytes.length); at >= 0; at = lineFeedBefore(bytes, at)) {
      missing -= 1;
      if (missing === 0) return offset + at + 1;
    }
    // Dropped while we read: what is left begins here.
    if (offset > from) return null;
    stop = from;
  }
  return first === 0 ? 0 : null;
}

function lineFeedBefore(bytes: Uint8Array, index: number): number {
  return index === 0 ? -1 : bytes.lastIndexOf(LINE_FEED, index - 1);
}
