/** Quotes a word for a shell, on one line and without control characters. */
export function shellQuote(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (!unprintableCharacter.test(word)) return `'${word.replaceAll("'", `'\\''`)}'`;
  return `$'${word.replaceAll(/[\\']/g, String.raw`\$&`).replaceAll(new RegExp(unprintableCharacter, "gu"), escapeCharacter)}'`;
}

/**
 * Control characters, line and paragraph separators, characters that reorder or hide text, blanks other than a space, and
 * characters without a defined shape (private and unassigned).
 */
export const unprintableCharacter =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/u;

export function escapeCharacter(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const short = { 7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 27: "e" }[code];
  if (short !== undefined) return `\\${short}`;
  if (code < 0x80) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code <= 0xffff
    ? `\\u${code.toString(16).padStart(4, "0")}`
    : `\\U${code.toString(16).padStart(8, "0")}`;
}

/** Splits a command line into words by a shell's quoting rules only. Null if a quotation does not end. */
export function splitShellWords(text: string): readonly string[] | null {
  const words: string[] = [];
  let word: string | null = null;
  let quote: "'" | '"' | null = null;
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at);
    if (quote === "'") {
      if (character === "'") quote = null;
      else word += character;
    } else if (character === "\\" && (quote === null || '"\\$`'.includes(text.charAt(at + 1)))) {
      at++;
      if (at >= text.length) return null;
      word = (word ?? "") + text.charAt(at);
    } else if (quote === '"') {
      if (character === '"') quote = null;
      else word += character;
    } else if (character === "'" || character === '"') {
      quote = character;
      word ??= "";
    } else if (/\s/.test(character)) {
      if (word !== null) words.push(word);
      word = null;
    } else word = (word ?? "") + character;
  }
  if (quote !== null) return null;
  if (word !== null) words.push(word);
  return words;
}
