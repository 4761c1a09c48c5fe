/**
 * How many cells a character takes, as programs of today count (wcwidth of Unicode 9 and later: emoji
 * are wide). The headless terminal's own table is that of Unicode 6, where they are not.
 */
export function characterWidth(code: number): 0 | 1 | 2 {
  if (code < 0x300) return code === 0xad || (code >= 0x20 && code < 0x7f) || code >= 0xa0 ? 1 : 0;
  const known = cachedWidths.get(code);
  if (known !== undefined) return known;
  const width = measureWidth(code);
  if (cachedWidths.size < MAX_CACHED_WIDTHS) cachedWidths.set(code, width);
  return width;
}

/** Distinct characters on one screen are far fewer; measuring costs a microsecond. */
const MAX_CACHED_WIDTHS = 4096;
const cachedWidths = new Map<number, 0 | 1 | 2>();

function measureWidth(code: number): 0 | 1 | 2 {
  const character = String.fromCodePoint(code);
  // Marks, format characters (joiners, directions), and the vowels and finals that Hangul puts onto a syllable.
  if (/[\p{Mn}\p{Me}\p{Cf}\u1160-\u11ff]/u.test(character)) return 0;
  return WIDE_CHARACTERS.test(character) ? 2 : 1;
}

/** East Asian wide and full-width blocks, and what is an emoji without being asked to. */
const WIDE_CHARACTERS =
  /[\p{Emoji_Presentation}\u1100-\u115f\u2329\u232a\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{16fe0}-\u{18cff}\u{1aff0}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]/u;
