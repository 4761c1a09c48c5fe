import { defaults } from "../defaults.js";
import { redactText } from "./redact.js";
import { sanitizeLine, sanitizeText } from "./sanitize.js";

/** Characters as people count them: a letter with its accents, a family of four. */
const segmenter = new Intl.Segmenter("en", { granularity: "grapheme" });

/** At most so many, ending in `…` where something was cut, and never inside a character. */
export function truncate(text: string, chars: number): string {
  if (text.length <= chars) return text;
  const border = segmenter.segment(text.slice(0, 2 * chars)).containing(chars - 1)?.index ?? 0;
  return `${text.slice(0, border).trimEnd()}…`;
}

/** Safe to show in a line of a table. */
export function singleLine(text: string, chars: number): string {
  return truncate(sanitizeLine(boundInput(text, chars).replaceAll(/\s+/g, " ")).trim(), chars);
}

/** Safe to show; its lines stay. */
export function multiLine(text: string, chars: number): string {
  return truncate(sanitizeText(boundInput(text, chars)).trim(), chars);
}

/** What is taken out may be longer than what stays; a flood is not worth a look. */
function boundInput(text: string, chars: number): string {
  return text.slice(0, 16 * chars);
}

/** The end or the beginning of a text. A copy: what `slice` returns keeps the whole alive, which may be megabytes. */
export function firstChars(text: string, chars: number): string {
  return text.length <= chars ? text : detachedCopy(text.slice(0, chars));
}

export function lastChars(text: string, chars: number): string {
  return text.length <= chars ? text : detachedCopy(text.slice(-chars));
}

/** UTF-16 as it is: half a surrogate pair stays one. */
function detachedCopy(text: string): string {
  return Buffer.from(text, "utf16le").toString("utf16le");
}

/** The newest of a text that is written on and on. */
export class TextTail {
  readonly #maxChars: number;
  #text = "";
  /** Characters written in all. */
  written = 0;

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  append(text: string): void {
    this.written += text.length;
    this.#text += lastChars(text, this.#maxChars);
    if (this.#text.length > 2 * this.#maxChars) this.#text = this.text;
  }

  get text(): string {
    // Not beginning in the middle of a surrogate pair.
    return lastChars(this.#text, this.#maxChars).replace(/^[\uDC00-\uDFFF]/, "");
  }

  /** Characters that are not in `text`. */
  get dropped(): number {
    return this.written - this.text.length;
  }
}

/** Of what an agent wrote, for people: one line, bounded, secrets hidden, nothing in it that a terminal obeys. */
export function redactedExcerpt(
  input: Uint8Array | string,
  chars: number = defaults.acpExcerptChars,
): string {
  // Cut before it is looked through: the whole may be megabytes. Four bytes are the most a character has.
  const text = typeof input === "string" ? input : Buffer.from(input.subarray(0, 4 * chars)).toString();
  const line = sanitizeLine(redactText(text.slice(0, 2 * chars)));
  return line.length > chars || text.length > 2 * chars
    ? `${line.slice(0, chars - 1).replace(/[\uD800-\uDBFF]$/, "")}…`
    : line;
}

/** The newest of an output as text of at most so many bytes: it begins, and ends, with a whole character. */
export function lastBytesAsText(
  bytes: Buffer,
  limit: number,
  { cut, ended }: { readonly cut: boolean; readonly ended: boolean },
): { readonly output: string; readonly truncated: boolean } {
  const whole = bytes.subarray(
    cut ? nextCharacterStart(bytes, 0) : 0,
    ended ? bytes.length : lastWholeCharacterEnd(bytes),
  );
  // What is no UTF-8 is replaced by a character of three bytes: only now is it known how much there is.
  const text = Buffer.from(whole.toString());
  const from = text.length > limit ? nextCharacterStart(text, text.length - limit) : 0;
  return { output: text.subarray(from).toString(), truncated: cut || from > 0 };
}

/** A character has at most four bytes. */
const MAX_CHARACTER_BYTES = 4;

function nextCharacterStart(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && at - from < MAX_CHARACTER_BYTES - 1 && isContinuation(bytes[at])) at++;
  return at;
}

/** Before a character whose rest has yet to come. */
function lastWholeCharacterEnd(bytes: Buffer): number {
  for (let back = 1; back < MAX_CHARACTER_BYTES && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (isContinuation(byte)) continue;
    const needs = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return needs > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
