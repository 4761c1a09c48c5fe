import type { StreamName } from "../../anchor/host.js";
import type { ReadOptions, OutputChunk } from "../../supervisor/api.js";

export interface OutputPiece {
  readonly stream: StreamName;
  readonly offset: number;
  readonly nextOffset: number;
  readonly text: string;
  readonly skipped: number;
  readonly ended: boolean;
}

export type ReadOutput = (stream: StreamName, options: ReadOptions) => Promise<OutputChunk>;

/** One read: most outputs are no longer. */
const CHUNK = 256 * 1024;

/**
 * What a stream holds from `from` on, as text; of more than `maxChars`, the newest. A character cut at the end is left
 * for the next piece, unless the stream has ended: so pieces put together are the whole.
 */
export async function textFrom(
  read: ReadOutput,
  stream: StreamName,
  from: number,
  maxChars: number,
  ended: boolean,
): Promise<OutputPiece> {
  const parts: { readonly offset: number; readonly bytes: Uint8Array }[] = [];
  let kept = 0;
  let next = from;
  // A character takes up to four bytes: what lies further back than that cannot be among the newest.
  const most = Math.max(CHUNK, maxChars * 4);
  for (;;) {
    const { offset, bytes } = await read(stream, { offset: next, maxBytes: CHUNK });
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
  const whole = ended ? bytes.length : wholeCharacters(bytes);
  const text = bytes.subarray(firstBoundary(bytes), whole).toString("utf8");
  const shown = newest(text, maxChars);
  const offset = start + whole - Buffer.byteLength(shown);
  return {
    stream,
    // Bytes that were no characters became replacement marks, which are longer: never say more than there was.
    offset: Math.max(start, offset),
    nextOffset: start + whole,
    text: shown,
    skipped: Math.max(0, Math.max(start, offset) - from),
    ended,
  };
}

function newest(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const cut = text.slice(text.length - maxChars);
  // Not between the halves of a pair.
  return /^[\uDC00-\uDFFF]/.test(cut) ? cut.slice(1) : cut;
}

/** Where the first whole character begins, when the piece begins inside one. */
function firstBoundary(bytes: Uint8Array): number {
  let at = 0;
  while (at < 3 && at < bytes.length && ((bytes[at] ?? 0) & 0xc0) === 0x80) at++;
  return at;
}

/** Up to the last character that is there in full. */
function wholeCharacters(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}
