import { eastAsianWidth } from "get-east-asian-width";

/**
 * Columns that a character takes on a terminal, as current programs count them (wcwidth since Unicode 9: emoji are
 * wide).
 */
export function characterWidth(code: number): 0 | 1 | 2 {
  if (code < 0x300) return code === 0xad || (code >= 0x20 && code < 0x7f) || code >= 0xa0 ? 1 : 0;
  const known = cachedWidths.get(code);
  if (known !== undefined) return known;
  const width = ZERO_WIDTH.test(String.fromCodePoint(code)) ? 0 : eastAsianWidth(code);
  if (cachedWidths.size < MAX_CACHED_WIDTHS) cachedWidths.set(code, width);
  return width;
}

/** Marks, format characters (joiners, directions), and the vowels and finals that join a Hangul syllable. */
const ZERO_WIDTH = /[\p{Mn}\p{Me}\p{Cf}\u1160-\u11ff]/u;

/** More than one screen has distinct characters. */
const MAX_CACHED_WIDTHS = 4096;
const cachedWidths = new Map<number, 0 | 1 | 2>();

/** Columns that a sanitized text takes on a terminal. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) width += characterWidth(character.codePointAt(0) ?? 0);
  return width;
}

/** At most `width` columns, with `…` where the text was cut. */
export function truncateToWidth(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const character of text) {
    const next = displayWidth(character);
    if (used + next > width - 1) break;
    kept += character;
    used += next;
  }
  return width < 1 ? "" : `${kept}…`;
}
