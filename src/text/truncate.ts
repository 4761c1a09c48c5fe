import { sanitizeLine, sanitizeText } from "./sanitize.js";
import { incompleteTailBytes, orphanedHeadBytes } from "./utf8.js";

/** Finds characters as people count them, such as a letter with its accents. Created on demand: that takes 10 ms. */
let segmenter: Intl.Segmenter | null = null;

/** At most `chars` long: cut between characters and ended with `…` if it was longer. */
export function truncate(text: string, chars: number): string {
  if (text.length <= chars) return text;
  segmenter ??= new Intl.Segmenter("en", { granularity: "grapheme" });
  const border = segmenter.segment(text.slice(0, 2 * chars)).containing(chars - 1)?.index ?? 0;
  return `${text.slice(0, border).trimEnd()}…`;
}

/** At most `chars` long: the end of the text, after `…` if it was longer. */
export function truncateStart(text: string, chars: number): string {
  return text.length <= chars ? text : `…${lastChars(text, chars - 1)}`;
}

/** The end of a text as one sanitized line of at most `chars`, from the beginning of a word, after `…` if it was longer. */
export function newestWords(text: string, chars: number): string {
  const line = sanitizeLine(lastChars(text, 16 * chars).replaceAll(/\s+/g, " ")).trim();
  if (line.length <= chars) return line;
  const end = lastChars(line, chars - 1);
  const space = end.indexOf(" ");
  // A word that is longer than half of the line is cut.
  return `…${space === -1 || space > chars / 2 ? end : end.slice(space + 1)}`;
}

/** One sanitized line, truncated. */
export function singleLine(text: string, chars: number): string {
  return truncate(sanitizeLine(boundInput(text, chars).replaceAll(/\s+/g, " ")).trim(), chars);
}

/** Sanitized text that keeps its line breaks, truncated. */
export function multiLine(text: string, chars: number): string {
  return truncate(sanitizeText(boundInput(text, chars)).trim(), chars);
}

/** Bounds the work of sanitizing. Sanitizing may shorten a text, so more than `chars` are read. */
function boundInput(text: string, chars: number): string {
  return text.slice(0, 16 * chars);
}

/** The first `chars` code units, without half a surrogate pair at the end. */
export function firstChars(text: string, chars: number): string {
  return text.length <= chars ? text : detachedCopy(text.slice(0, chars).replace(/[\uD800-\uDBFF]$/, ""));
}

/** The last `chars` code units, without half a surrogate pair at the beginning. */
export function lastChars(text: string, chars: number): string {
  if (text.length <= chars) return text;
  return detachedCopy(text.slice(text.length - chars).replace(/^[\uDC00-\uDFFF]/, ""));
}

/** A result of `slice` keeps the whole text in memory; a copy does not. */
function detachedCopy(text: string): string {
  return Buffer.from(text, "utf16le").toString("utf16le");
}

/** The last characters of a text that keeps growing. */
export class TextTail {
  readonly #maxChars: number;
  #text = "";
  #length = 0;

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  append(text: string): void {
    this.#length += text.length;
    this.#text += text.length > this.#maxChars ? detachedCopy(text.slice(-this.#maxChars)) : text;
    if (this.#text.length > 2 * this.#maxChars) this.#text = this.text;
  }

  get text(): string {
    // Also a text of exactly `maxChars` may begin with half a surrogate pair, because `append` cuts anywhere.
    return lastChars(this.#text, this.#maxChars).replace(/^[\uDC00-\uDFFF]/, "");
  }

  /** Characters before `text`. */
  get omitted(): number {
    return this.#length - this.text.length;
  }
}

/** The last `limit` bytes of an output as text that begins and ends with a whole character. `cut`: its beginning is lost. */
export function lastBytesAsText(
  bytes: Buffer,
  limit: number,
  { cut, ended }: { readonly cut: boolean; readonly ended: boolean },
): { readonly output: string; readonly truncated: boolean } {
  const whole = bytes.subarray(
    cut ? orphanedHeadBytes(bytes) : 0,
    ended ? bytes.length : bytes.length - incompleteTailBytes(bytes),
  );
  // Invalid UTF-8 becomes replacement characters of three bytes, so the length is known only after decoding.
  const text = Buffer.from(whole.toString());
  const start = Math.max(0, text.length - limit);
  const from = start > 0 ? start + orphanedHeadBytes(text.subarray(start)) : 0;
  return { output: text.subarray(from).toString(), truncated: cut || from > 0 };
}
