import type { StreamName } from "../anchor/host-interface.js";
import type { ParsedRequestOf, ResponseOf } from "../api/contract.js";
import type { RunRecord } from "../model/run.js";
import { readBytePage } from "../output/byte-page.js";
import type { ByteReader } from "../output/byte-reader.js";
import { readLinePage } from "../output/line-page.js";
import type { OutputChunk } from "../supervisor/api.js";
import type { ReadOptions } from "../supervisor/check-options.js";
import { sanitizeText } from "../text/sanitize.js";
import { lastChars } from "../text/truncate.js";
import type { RunReader } from "./runs.js";

export interface OutputPiece {
  readonly stream: StreamName;
  readonly offset: number;
  readonly nextOffset: number;
  /** The unchanged text. */
  readonly text: string;
  /** The bytes of `text`. */
  readonly bytes: Buffer;
  readonly skipped: number;
  readonly lost: number;
  readonly ended: boolean;
}

type ReadOutput = (stream: StreamName, options: ReadOptions) => Promise<OutputChunk>;

/** One read: most outputs are no longer. */
const READ_BYTES = 256 * 1024;

/**
 * The output of a stream from `from` on, as text: at most the newest `maxChars`. An incomplete character at the end is
 * left for the next piece unless the stream has ended, so that the pieces add up to the whole output.
 */
export async function readOutputText(
  read: ReadOutput,
  stream: StreamName,
  from: number,
  maxChars: number,
  ended: boolean,
): Promise<OutputPiece> {
  const parts: { readonly offset: number; readonly bytes: Uint8Array }[] = [];
  let kept = 0;
  let next = from;
  let lost = 0;
  // A character has at most four bytes, which bounds the bytes to read.
  const most = Math.max(READ_BYTES, maxChars * 4);
  for (;;) {
    const slice = await read(stream, { offset: next, maxBytes: READ_BYTES });
    const { offset, bytes } = slice;
    lost += slice.lost ?? 0;
    if (offset > next) {
      // After a gap, the text before it counts as not returned, so that the text has no gap.
      parts.length = 0;
      kept = 0;
      next = offset;
    }
    if (bytes.length === 0) break;
    parts.push({ offset, bytes });
    kept += bytes.length;
    next = offset + bytes.length;
    for (let first = parts[0]; first !== undefined && kept - first.bytes.length >= most; first = parts[0]) {
      kept -= first.bytes.length;
      parts.shift();
    }
  }
  const bytes = Buffer.concat(parts.map((part) => part.bytes));
  const start = parts[0]?.offset ?? next;
  const whole = ended ? bytes.length : completeCharactersLength(bytes);
  const first = firstCharacterBoundary(bytes);
  const { text, at } = lastCharacters(bytes.subarray(first, whole), maxChars);
  const offset = start + first + at;
  const skipped = Math.max(0, offset - from);
  const own = bytes.subarray(first + at, whole);
  return { stream, offset, nextOffset: start + whole, text, bytes: own, skipped, lost, ended };
}

/** The piece as it is sent: text sanitized like that of a log, and the unchanged bytes only with `raw`. */
export function outputPieceResponse({ text, bytes, ...piece }: OutputPiece, raw: boolean) {
  return { ...piece, text: sanitizeText(text), ...(raw ? { base64: bytes.toString("base64") } : {}) };
}

/** The last so many characters, and the byte they begin at. */
function lastCharacters(bytes: Buffer, maxChars: number): { readonly text: string; readonly at: number } {
  const whole = bytes.toString("utf8");
  if (whole.length <= maxChars) return { text: whole, at: 0 };
  const text = lastChars(whole, maxChars);
  if (Buffer.byteLength(whole) === bytes.length) return { text, at: bytes.length - Buffer.byteLength(text) };
  // Invalid bytes became longer replacement characters, so the offset has to be searched.
  let low = 0;
  let high = bytes.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (bytes.toString("utf8", middle).length > maxChars) low = middle + 1;
    else high = middle;
  }
  const at = low + firstCharacterBoundary(bytes.subarray(low));
  return { text: bytes.toString("utf8", at), at };
}

/** Offset of the first whole UTF-8 character. */
function firstCharacterBoundary(bytes: Uint8Array): number {
  let at = 0;
  while (at < 3 && at < bytes.length && ((bytes[at] ?? 0) & 0xc0) === 0x80) at++;
  return at;
}

/** Up to the last character that is there in full. */
function completeCharactersLength(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

/** A page of a run's output: from a byte on, from a line on, or the last lines. */
export async function readLog(
  reader: RunReader,
  record: RunRecord,
  { stream, offset, maxBytes, skip, lines, raw = false }: ParsedRequestOf<"log">["query"],
): Promise<ResponseOf<"log">> {
  const read: ByteReader = (from, most) =>
    reader.readOutput(record, stream, { offset: from, maxBytes: most });
  const ended = record.state === "exited";
  if (offset !== undefined) {
    const page = await readBytePage(read, { offset, bytes: maxBytes }, { raw, ended });
    const { text, firstOffset, nextOffset, more } = page;
    const missing = { skipped: page.droppedBytes, lost: page.lostBytes };
    return { stream, offset: firstOffset, nextOffset, text, ...missing, ended: ended && !more };
  }
  const page = await readLinePage(read, skip === undefined ? { last: lines } : { skip, lines }, {
    raw,
    ended,
  });
  const { firstOffset, nextOffset, unfinishedFrom, more } = page;
  const text = page.lines.join("\n") + (page.lines.length > 0 && unfinishedFrom === null ? "\n" : "");
  const missing = { skipped: page.droppedBytes, lost: page.lostBytes };
  return { stream, offset: firstOffset, nextOffset, text, ...missing, ended: ended && !more };
}
