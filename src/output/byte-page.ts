import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";
import { sanitizeText } from "../text/sanitize.js";
import { incompleteTailBytes } from "../text/utf8.js";
import { alignToCharacter, type ByteReader, findRange, readContiguous } from "./byte-reader.js";
import type { LineOptions } from "./line-page.js";

interface ByteRequest {
  readonly offset: number;
  readonly bytes: number;
}

/** The bytes from `firstOffset` up to `nextOffset`, as text. */
interface BytePage {
  readonly text: string;
  readonly firstOffset: number;
  readonly nextOffset: number;
  /** True if the page limit cut the request and more bytes exist. */
  readonly truncated: boolean;
  /** True if the stream has bytes after `nextOffset` now. */
  readonly more: boolean;
  /** Requested bytes that are no longer kept. */
  readonly droppedBytes: number;
  /** The part of `droppedBytes` that is missing because a spool file was truncated or removed. */
  readonly lostBytes: number;
}

/** Room for any one character, so that every page makes progress. */
const MIN_PAGE_BYTES = 4;

/**
 * Reads a page of a stream by bytes. Characters are not split: a page starts with the character that contains `offset`,
 * and ends before a character that does not fit or before missing bytes. Pages read from `nextOffset` to `nextOffset`
 * form the whole text.
 */
export async function readBytePage(
  read: ByteReader,
  { offset, bytes }: ByteRequest,
  { raw = false, ended = false, range: known }: Pick<LineOptions, "raw" | "ended" | "range"> = {},
): Promise<BytePage> {
  for (const [field, value] of Object.entries({ offset, bytes }))
    if (!Number.isSafeInteger(value) || value < 0)
      throw new BadInput(field, `${field} must be a whole number of bytes, 0 or more, not ${value}`);
  const range = known ?? (await findRange(read));
  const from = await alignToCharacter(read, Math.min(offset, range.end), range.first);
  const room = Math.min(Math.max(bytes, MIN_PAGE_BYTES), defaults.logPageBytes);
  const slice = await readContiguous(read, { first: from, end: Math.min(from + room, range.end) });
  const readTo = slice.offset + slice.bytes.length;
  // At the end of the stream and before missing bytes, an incomplete character cannot be completed and is kept.
  const without = slice.gapAfter || (ended && readTo >= range.end) ? 0 : incompleteTailBytes(slice.bytes);
  const whole = Buffer.from(slice.bytes.subarray(0, slice.bytes.length - without)).toString("utf8");
  const nextOffset = readTo - without;
  return {
    text: raw ? whole : sanitizeText(whole),
    firstOffset: slice.offset,
    nextOffset,
    truncated: bytes > defaults.logPageBytes && nextOffset < range.end,
    more: nextOffset < range.end,
    droppedBytes: Math.max(0, slice.offset - offset),
    lostBytes: (slice.lost ?? 0) + (from > offset ? (range.lost ?? 0) : 0),
  };
}
