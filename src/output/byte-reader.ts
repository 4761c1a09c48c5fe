import type { OutputSlice } from "../anchor/host.js";

/**
 * A stream by non-consuming offsets, as `Run.read` and the spool give it: up to `maxBytes` from `offset` on, or fewer;
 * empty only when there is nothing at or after it now; from further on when older bytes were dropped.
 */
export type ByteReader = (offset: number, maxBytes: number) => Promise<OutputSlice>;

export interface ByteRange {
  /** The oldest byte kept. */
  readonly first: number;
  /** After the newest. */
  readonly end: number;
}

/** How far a stream reaches, found by asking: some forty reads of one byte. It may grow or lose bytes meanwhile. */
export async function rangeOf(read: ByteReader): Promise<ByteRange> {
  const oldest = await read(0, 1);
  if (oldest.bytes.length === 0) return { first: oldest.offset, end: oldest.offset };
  const first = oldest.offset;
  const isThere = async (offset: number): Promise<boolean> => (await read(offset, 1)).bytes.length > 0;
  let there = first;
  let step = 1;
  while (await isThere(there + step)) {
    there += step;
    step *= 2;
  }
  // `there` is, `there + step` is not.
  while (step > 1) {
    step = Math.ceil(step / 2);
    if (await isThere(there + step)) there += step;
  }
  return { first, end: there + 1 };
}

/** All of a range that is there; its beginning may have been dropped. For small ranges. */
export async function readRange(read: ByteReader, { first, end }: ByteRange): Promise<OutputSlice> {
  const parts: Uint8Array[] = [];
  let start = first;
  let position = first;
  while (position < end) {
    const { offset, bytes } = await read(position, end - position);
    if (bytes.length === 0 || offset >= end) break;
    if (offset > position) {
      parts.length = 0;
      start = offset;
    }
    const wanted = bytes.subarray(0, end - offset);
    parts.push(wanted);
    position = offset + wanted.length;
  }
  return { offset: start, bytes: Buffer.concat(parts) };
}
