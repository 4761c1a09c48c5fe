/** Wide in every terminal: CJK, full-width forms, emoji. */
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const zero = /\p{Mn}|\p{Me}|\p{Cf}/u;

/** Columns the text takes on a terminal. It must have been sanitized. */
export function widthOf(text: string): number {
  let width = 0;
  for (const character of text) width += zero.test(character) ? 0 : wide.test(character) ? 2 : 1;
  return width;
}

/** At most `width` columns, with `…` where something was cut. */
export function fit(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const character of text) {
    const next = widthOf(character);
    if (used + next > width - 1) break;
    kept += character;
    used += next;
  }
  return width < 1 ? "" : `${kept}…`;
}

/** Columns side by side; the last one takes what is left of `width` (null: all it wants). */
export function table(rows: readonly (readonly string[])[], width: number | null): string[] {
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, at) =>
    Math.max(...rows.map((row) => widthOf(row[at] ?? ""))),
  );
  return rows.map((row) => {
    const line = row.map((cell, at) => (at === columns - 1 ? cell : pad(cell, widths[at] ?? 0))).join("  ");
    return width === null ? line.trimEnd() : fit(line.trimEnd(), width);
  });
}

function pad(cell: string, width: number): string {
  return cell + " ".repeat(Math.max(0, width - widthOf(cell)));
}
