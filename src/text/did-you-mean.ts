/** Returns the names that are similar to `word`, the most similar first: at most a third of the characters differ. */
export function didYouMean(word: string, names: readonly string[]): string[] {
  const wanted = word.toLowerCase();
  if (wanted.length > MAX_WORD_CHARS) return [];
  const near = names
    .map((name) => ({ name, distance: editDistance(wanted, name.toLowerCase()) }))
    .filter(
      ({ name, distance: edits }) =>
        edits <= Math.max(1, Math.floor(Math.min(wanted.length, name.length) / 3)),
    );
  return near
    .toSorted((a, b) => a.distance - b.distance)
    .slice(0, MAX_SUGGESTIONS)
    .map(({ name }) => name);
}

const MAX_SUGGESTIONS = 3;
/** No name is that long. */
const MAX_WORD_CHARS = 32;

/** Counts insertions, deletions, substitutions and transpositions of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1];
      const change = cell(last, j - 1) + (same ? 0 : 1);
      let least = Math.min(cell(last, j) + 1, cell(row, j - 1) + 1, change);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        least = Math.min(least, cell(beforeLast, j - 2) + 1);
      row.push(least);
    }
    beforeLast = last;
    last = row;
  }
  return cell(last, b.length);
}

function cell(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY;
}
