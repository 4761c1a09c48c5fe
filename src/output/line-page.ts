import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";
import { orphanedHeadBytes } from "../text/utf8.js";
import { alignToCharacter, type ByteRange, type ByteReader, findRange, readRange } from "./byte-reader.js";
import { LineCollector } from "./line-collector.js";

const LINE_FEED = 0x0a;

/**
 * Finds where the last `count` lines of a range start, reading backwards in chunks. Null if the range has fewer lines
 * and bytes before it were dropped, so that its first line may be incomplete.
 */
async function findLastLinesStart(
  read: ByteReader,
  { first, end }: ByteRange,
  count: number,
): Promise<number | null> {
  if (count === 0) return end;
  let missing = count;
  // A line feed at the very end belongs to the last line.
  let stop = end - 1;
  while (stop > first) {
    const from = Math.max(first, stop - defaults.logChunkBytes);
    const { offset, bytes } = await readRange(read, { first: from, end: stop });
    for (let at = lineFeedBefore(bytes, bytes.length); at >= 0; at = lineFeedBefore(bytes, at)) {
      missing -= 1;
      if (missing === 0) return offset + at + 1;
    }
    // Older bytes were dropped during the search; the rest starts here.
    if (offset > from) return null;
    stop = from;
  }
  return first === 0 ? 0 : null;
}

function lineFeedBefore(bytes: Uint8Array, index: number): number {
  return index === 0 ? -1 : bytes.lastIndexOf(LINE_FEED, index - 1);
}

/** Lines from an offset on, or the last lines. */
export type LineRequest =
  | {
      /** Byte offset to start at, such as `nextOffset` of an earlier page. Default: the oldest byte kept. */
      readonly from?: number;
      /** Number of lines to skip first. Default 0. */
      readonly skip?: number;
      readonly lines: number;
    }
  | {
      readonly last: number;
      /** Only lines before this byte offset, such as `firstOffset` of a later page. Default: the end. */
      readonly before?: number;
    };

export interface LineOptions {
  /** Keep only the last state of a progress bar (`\r`). Default false: carriage returns are shown. */
  readonly collapse?: boolean;
  /** The stream has ended: an incomplete character at the end is shown, too. Default false. */
  readonly ended?: boolean;
  /** Do not sanitize: keep escape sequences. Default false: the text is safe for terminals. */
  readonly raw?: boolean;
  /** The range of the stream, if the caller knows it. Default: `findRange` finds it. */
  readonly range?: ByteRange;
  readonly maxLineBytes?: number;
  readonly maxPageBytes?: number;
}

/** The bytes from `firstOffset` up to `nextOffset`, as lines. */
export interface LinePage {
  readonly lines: readonly string[];
  readonly firstOffset: number;
  readonly nextOffset: number;
  /** Start of the last line if it has no line end yet: read from here to get the whole line later. */
  readonly unfinishedFrom: number | null;
  /**
   * True if kept bytes of the request are missing: the rest of a long line (marked in it), or lines beyond the page
   * limit.
   */
  readonly truncated: boolean;
  /** True if the stream has bytes after `nextOffset` now. */
  readonly more: boolean;
  /** Requested bytes that are no longer kept. */
  readonly droppedBytes: number;
  /** The part of `droppedBytes` that is missing because a spool file was truncated or removed. */
  readonly lostBytes: number;
}

/** Bytes of a range that could not be read. */
interface Gap {
  readonly dropped: number;
  readonly lost: number;
}

/** Reads a page of a stream by lines, in chunks, and holds no more than a page. */
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

/** Feeds the range to the collector and returns how many bytes could not be read. */
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
      // The bytes were dropped before they were read, or are lost. A page of the oldest lines ends before the gap, and
      // the next page reports it. A page of the last lines starts after the gap.
      if (collector.count > 0 && collector.keep === "oldest") break;
      gap = addGaps(gap, { dropped: Math.min(offset, end) - position, lost });
    }
    if (bytes.length === 0 || offset >= end) break;
    if (offset > position) {
      position = offset + orphanedHeadBytes(bytes);
      collector.restartAt(position);
    }
    // A read after a gap may reach beyond the end.
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
