import type { OutputSlice } from "../anchor/host-interface.js";
import { incompleteTailBytes, MAX_CONTINUATION_BYTES, orphanedHeadBytes } from "../text/utf8.js";

/**
 * Reads a stream by offset, without consuming it: up to `maxBytes` from `offset`. The result is empty only if there is
 * nothing at or after `offset` now, and starts later if older bytes were dropped or lost.
 */
export type ByteReader = (offset: number, maxBytes: number) => Promise<OutputSlice>;

export interface ByteRange {
  /** Offset of the oldest byte kept. */
  readonly first: number;
  /** Offset after the newest byte. */
  readonly end: number;
  /** Bytes before `first` that are missing because a spool file was truncated or removed. Absent if none are. */
  readonly lost?: number;
}

/** Finds the range of a stream with about forty reads of one byte. The stream may grow or lose bytes meanwhile. */
export async function findRange(read: ByteReader): Promise<ByteRange> {
  const oldest = await read(0, 1);
  const first = oldest.offset;
  const lost = oldest.lost === undefined ? {} : { lost: oldest.lost };
  if (oldest.bytes.length === 0) return { first, end: first, ...lost };
  const isThere = async (offset: number): Promise<boolean> => (await read(offset, 1)).bytes.length > 0;
  let there = first;
  let step = 1;
  while (await isThere(there + step)) {
    there += step;
    step *= 2;
  }
  // `there` exists and `there + step` does not.
  while (step > 1) {
    step = Math.ceil(step / 2);
    if (await isThere(there + step)) there += step;
  }
  // Lost bytes may follow the last byte.
  const { offset: end } = await read(there + 1, 1);
  return { first, end, ...lost };
}

/** A part of a range without gaps. */
interface ContiguousSlice extends OutputSlice {
  /** True if the following bytes are not kept: the next read starts later. */
  readonly gapAfter: boolean;
}

/**
 * Reads a range up to its first gap. If the gap is at the start, returns the bytes after the gap, possibly beyond the
 * range.
 */
export async function readContiguous(read: ByteReader, { first, end }: ByteRange): Promise<ContiguousSlice> {
  const parts: Uint8Array[] = [];
  let start = first;
  let position = first;
  let lost = 0;
  let gapAfter = false;
  while (position < end && !gapAfter) {
    const slice = await read(position, end - position);
    gapAfter = slice.offset > position && parts.length > 0;
    if (gapAfter) break;
    if (slice.offset > position) start = slice.offset;
    lost += slice.lost ?? 0;
    const wanted = slice.bytes.subarray(0, Math.max(0, end - slice.offset));
    position = slice.offset + wanted.length;
    if (wanted.length === 0) break;
    parts.push(wanted);
  }
  const bytes = Buffer.concat(parts);
  return { offset: start, bytes, gapAfter, ...(lost === 0 ? {} : { lost }) };
}

/** Reads all bytes of a range that are kept; the start may have been dropped. For small ranges. */
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

/**
 * Returns the nearest offset at or before `offset` that is not inside a character. If older bytes were dropped, skips
 * the rest of a character whose start is gone.
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
