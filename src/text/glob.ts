/** Whether a title is like a pattern, in which `*` stands for any text: each part at its first place after the one before. */
export function matchesGlob(pattern: string, text: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  if (last === undefined) return pattern === text;
  if (!text.startsWith(first)) return false;
  let from = first.length;
  for (const part of rest) {
    const at = indexOfLinear(text, part, from);
    if (at < 0) return false;
    from = at + part.length;
  }
  return text.length - last.length >= from && text.endsWith(last);
}

/**
 * By Knuth, Morris and Pratt, in as many steps as both are long: `indexOf` can take their product, and whoever sets a
 * session's rules may be its agent's friend.
 */
function indexOfLinear(text: string, part: string, from: number): number {
  if (part === "") return from;
  const failures = failureTable(part);
  let matched = 0;
  for (let at = from; at < text.length; at++) {
    while (matched > 0 && text[at] !== part[matched]) matched = failures[matched - 1] ?? 0;
    if (text[at] === part[matched]) matched++;
    if (matched === part.length) return at + 1 - matched;
  }
  return -1;
}

/** Of each beginning of it: how much of its end is a beginning again. */
function failureTable(part: string): readonly number[] {
  const failures = [0];
  for (let at = 1, matched = 0; at < part.length; at++) {
    while (matched > 0 && part[at] !== part[matched]) matched = failures[matched - 1] ?? 0;
    if (part[at] === part[matched]) matched++;
    failures.push(matched);
  }
  return failures;
}
