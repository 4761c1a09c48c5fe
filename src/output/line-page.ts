import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";
import { orphanedHeadBytes } from "../text/utf8.js";
import { alignToCharacter, type ByteRange, type ByteReader, findRange, readRange } from "./byte-reader.js";
import { LineCollector } from "./line-collector.js";

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

/** Lines from a place on, or the last ones. */
export type LineRequest =
  | {
      /** Byte offset to begin at, such as an earlier page's `nextOffset`. Default: the oldest byte kept. */
      readonly from?: number;
      /** Lines to pass over first. Default 0. */
      readonly skip?: number;
      readonly lines: number;
    }
  | {
      readonly last: number;
      /** Lines before this byte offset, such as a later page's `firstOffset`. Default: the end. */
      readonly before?: number;
    };

export interface LineOptions {
  /** Of a progress bar (`\r`), only the last state. Default false: returns are shown. */
  readonly collapse?: boolean;
  /** Nothing will be added: bytes that look like the beginning of a character are shown, too. Default false. */
  readonly ended?: boolean;
  /** As it came, escape sequences and all. Default false: safe for terminals. */
  readonly raw?: boolean;
  /** How far the stream reaches, from who knows. Default: it is asked (`rangeOf`). */
  readonly range?: ByteRange;
  readonly maxLineBytes?: number;
  readonly maxPageBytes?: number;
}

/** The bytes from `firstOffset` up to `nextOffset`, as lines. */
export interface LinePage {
  readonly lines: readonly string[];
  readonly firstOffset: number;
  readonly nextOffset: number;
  /** Where the last line begins, when it has no line end yet: read from here to get it whole later. */
  readonly unfinishedFrom: number | null;
  /** Something that was asked for and is kept is not here: a long line's rest (marked in it), or lines beyond the page's bound. */
  readonly truncated: boolean;
  /** There is more after `nextOffset` now. */
  readonly more: boolean;
  /** Bytes that were asked for but are no longer kept. */
  readonly droppedBytes: number;
  /** How many of these are missing because a spool file was truncated or removed. */
  readonly lostBytes: number;
}

/** Bytes of a range that could not be read. */
interface Gap {
  readonly dropped: number;
  readonly lost: number;
}

/** A page of a stream by lines. Reads in bounded chunks and holds no more than a page. */
export async function readLinePage(
  read: ByteReader,
  wanted: LineRequest,
  options: LineOptions = {},
): Promise<LinePage> {
  const { maxLineBytes, maxPageBytes } = options;
  for (const [field, value] of Object.entries({ ...wanted, maxLineBytes, maxPageBytes }))
    requireCount(field, value);
  const range = options.range ?? (await findRange(read));
  return "last" in wanted
    ? readLastLines(read, wanted, range, options)
    : readLinesFrom(read, wanted, range, options);
}

async function readLinesFrom(
  read: ByteReader,
  { from = 0, skip = 0, lines }: Extract<LineRequest, { lines: number }>,
  { first, end, lost = 0 }: ByteRange,
  options: LineOptions,
): Promise<LinePage> {
  const start = await alignToCharacter(read, from, first);
  const collector = new LineCollector(start, { ...options, keep: "oldest", skip, lines });
  const gap = await collectLines(read, { first: start, end }, collector);
  const earlier = { dropped: Math.max(0, first - from), lost: from < first ? lost : 0 };
  return toLinePage(collector, end, options, addGaps(gap, earlier));
}

async function readLastLines(
  read: ByteReader,
  { last, before }: Extract<LineRequest, { last: number }>,
  { first, end, lost = 0 }: ByteRange,
  options: LineOptions,
): Promise<LinePage> {
  const stop = Math.max(first, Math.min(before ?? end, end));
  const lines = Math.min(last, defaults.logPageLines);
  const found = await findLastLinesStart(read, { first, end: stop }, lines);
  const start = found ?? (await alignToCharacter(read, first, first));
  const collector = new LineCollector(start, { ...options, keep: "newest", skip: 0, lines });
  const gap = await collectLines(read, { first: start, end: stop }, collector);
  const earlier = found === null ? { dropped: first, lost } : { dropped: 0, lost: 0 };
  const page = toLinePage(collector, end, options, addGaps(gap, earlier));
  return { ...page, truncated: page.truncated || (last > lines && found !== null && found > first) };
}

/** Gives the range to the collector, and returns how many bytes of it could not be read. */
async function collectLines(
  read: ByteReader,
  { first, end }: ByteRange,
  collector: LineCollector,
): Promise<Gap> {
  let position = first;
  let gap: Gap = { dropped: 0, lost: 0 };
  while (position < end && !collector.full) {
    const {
      offset,
      bytes,
      lost = 0,
    } = await read(position, Math.min(defaults.logChunkBytes, end - position));
    if (offset > position) {
      // Dropped before they were read, or lost. What was read stays a page, and the next one will say what is missing; but
      // the last lines are those after the gap.
      if (collector.count > 0 && collector.keep === "oldest") break;
      gap = addGaps(gap, { dropped: Math.min(offset, end) - position, lost });
    }
    if (bytes.length === 0 || offset >= end) break;
    if (offset > position) {
      position = offset + orphanedHeadBytes(bytes);
      collector.restartAt(position);
    }
    // What is read after a gap may reach beyond the end.
    const wanted = bytes.subarray(position - offset, end - offset);
    collector.push(wanted);
    position += wanted.length;
  }
  return gap;
}

function addGaps(a: Gap, b: Gap): Gap {
  return { dropped: a.dropped + b.dropped, lost: a.lost + b.lost };
}

function toLinePage(
  collector: LineCollector,
  end: number,
  { ended = false }: LineOptions,
  { dropped: droppedBytes, lost: lostBytes }: Gap,
): LinePage {
  const { cut, ...collected } = collector.finish(ended);
  const more = collected.nextOffset < end;
  return {
    ...collected,
    truncated: cut || (collector.limitedByPage && more),
    more,
    droppedBytes,
    lostBytes,
  };
}

function requireCount(field: string, value: number | undefined): void {
  if (value !== undefined && (!Number.isSafeInteger(value) || value < 0))
    throw new BadInput(field, `${field} must be a whole number, 0 or more, not ${value}`);
}
