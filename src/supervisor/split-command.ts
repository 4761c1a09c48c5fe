/** The words of a stored command line, by a shell's quoting and nothing else of a shell. Null: its quotes do not end. */
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
