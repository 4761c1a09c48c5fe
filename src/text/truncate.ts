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
