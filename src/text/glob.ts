/** Bounds `indexOf`, which takes up to the product of both lengths: about a millisecond for one pattern. */
const MAX_SEARCH_STEPS = 2 ** 20;

/** True if the text matches the pattern, in which `*` stands for any text. Null: both are too long to be compared. */
export function matchesGlob(pattern: string, text: string): boolean | null {
  const [first = "", ...middle] = pattern.split("*");
  const last = middle.pop();
  if (last === undefined) return pattern === text;
  if (Math.max(0, ...middle.map((part) => part.length)) * text.length > MAX_SEARCH_STEPS) return null;
  if (!text.startsWith(first)) return false;
  let from = first.length;
  for (const part of middle) {
    const at = text.indexOf(part, from);
    if (at < 0) return false;
    from = at + part.length;
  }
  return text.length - last.length >= from && text.endsWith(last);
}
