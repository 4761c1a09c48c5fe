export interface DiffLine {
  readonly sign: " " | "+" | "-";
  readonly text: string;
}

/** Unchanged lines that are shown before and after a change. */
const CONTEXT = 3;
/** Above this product of lines, everything between the common ends is shown as removed and added. */
const MAX_CELLS = 4_000_000;

/** The lines of two texts that differ, with some lines around them. Null: a gap between two places. */
export function lineDiff(before: string, after: string): readonly (DiffLine | null)[] {
  const [old, now] = [linesOf(before), linesOf(after)];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  const most = Math.min(old.length, now.length) - start;
  while (end < most && old.at(-1 - end) === now.at(-1 - end)) end++;
  const middle = compare(old.slice(start, old.length - end), now.slice(start, now.length - end));
  const same = (text: string): DiffLine => ({ sign: " ", text });
  return withContext([...old.slice(0, start).map(same), ...middle, ...old.slice(old.length - end).map(same)]);
}

/** By the longest common subsequence of lines. */
function compare(old: readonly string[], now: readonly string[]): DiffLine[] {
  const removed = (text: string): DiffLine => ({ sign: "-", text });
  const added = (text: string): DiffLine => ({ sign: "+", text });
  const width = now.length + 1;
  if (old.length * now.length > MAX_CELLS) return [...old.map(removed), ...now.map(added)];
  const common = new Uint32Array((old.length + 1) * width);
  const at = (row: number, column: number): number => common[row * width + column] ?? 0;
  for (let row = old.length - 1; row >= 0; row--)
    for (let column = now.length - 1; column >= 0; column--)
      common[row * width + column] =
        old[row] === now[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1));
  const lines: DiffLine[] = [];
  let [row, column] = [0, 0];
  while (row < old.length || column < now.length) {
    const [one, other] = [old[row], now[column]];
    if (one !== undefined && one === other) {
      lines.push({ sign: " ", text: one });
      row++;
      column++;
    } else if (one !== undefined && (other === undefined || at(row + 1, column) >= at(row, column + 1))) {
      lines.push(removed(one));
      row++;
    } else if (other !== undefined) {
      lines.push(added(other));
      column++;
    }
  }
  return lines;
}

function withContext(lines: readonly DiffLine[]): (DiffLine | null)[] {
  const shown = new Set<number>();
  for (const [at, { sign }] of lines.entries())
    if (sign !== " ") for (let near = at - CONTEXT; near <= at + CONTEXT; near++) shown.add(near);
  const kept: (DiffLine | null)[] = [];
  for (const [at, line] of lines.entries()) {
    if (shown.has(at)) kept.push(line);
    else if (kept.length > 0 && kept.at(-1) !== null) kept.push(null);
  }
  return kept.at(-1) === null ? kept.slice(0, -1) : kept;
}

function linesOf(text: string): string[] {
  return text === "" ? [] : text.replace(/\n$/, "").split("\n");
}
