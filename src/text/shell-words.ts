import { escapeCharacter, unprintableCharacter } from "./unprintable-characters.js";

/** Quotes a word for a shell, on one line and without control characters. */
export function shellQuote(word: string): string {
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (!unprintableCharacter.test(word)) return `'${word.replaceAll("'", `'\\''`)}'`;
  return `$'${word.replaceAll(/[\\']/g, String.raw`\$&`).replaceAll(new RegExp(unprintableCharacter, "gu"), escapeCharacter)}'`;
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
