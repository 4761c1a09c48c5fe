/** Whether a title is like a pattern, in which `*` stands for any text: each part at its first place after the one before. */
export function isLike(pattern: string, text: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  if (last === undefined) return pattern === text;
  if (!text.startsWith(first)) return false;
  let from = first.length;
  for (const part of rest) {
    const at = find(text, part, from);
    if (at < 0) return false;
    from = at + part.length;
  }
  return text.length - last.length >= from && text.endsWith(last);
}

/**
 * By Knuth, Morris and Pratt, in as many steps as both are long: `indexOf` can take their product, and whoever sets a
 * session's rules may be its agent's friend.
 */
function find(text: string, part: string, from: number): number {
  if (part === "") return from;
  const falls = fallsOf(part);
  let met = 0;
  for (let at = from; at < text.length; at++) {
    while (met > 0 && text[at] !== part[met]) met = falls[met - 1] ?? 0;
    if (text[at] === part[met]) met++;
    if (met === part.length) return at + 1 - met;
  }
  return -1;
}

/** Of each beginning of it: how much of its end is a beginning again. */
function fallsOf(part: string): readonly number[] {
  const falls = [0];
  for (let at = 1, met = 0; at < part.length; at++) {
    while (met > 0 && part[at] !== part[met]) met = falls[met - 1] ?? 0;
    if (part[at] === part[met]) met++;
    falls.push(met);
  }
  return falls;
}
