import { isatty } from "node:tty";
import { sanitizeLine } from "../../text/sanitize.js";
import { paletteFor } from "./palette.js";
import { print } from "./stdout.js";

/** Wide in every terminal: CJK, full-width forms, emoji. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const ZERO_WIDTH = /\p{Mn}|\p{Me}|\p{Cf}/u;

/** Columns the text takes on a terminal. It must have been sanitized. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) width += ZERO_WIDTH.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return width;
}

/** At most `width` columns, with `…` where something was cut. */
export function truncateToWidth(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const character of text) {
    const next = displayWidth(character);
    if (used + next > width - 1) break;
    kept += character;
    used += next;
  }
  return width < 1 ? "" : `${kept}…`;
}

/** Columns side by side; the last one takes what is left of `width` (null: all it wants). */
export function formatTable(rows: readonly (readonly string[])[], width: number | null): string[] {
  const columns = Math.max(0, ...rows.map((row) => row.length));
  const widths = Array.from({ length: columns }, (_, at) =>
    Math.max(...rows.map((row) => displayWidth(row[at] ?? ""))),
  );
  return rows.map((row) => {
    const line = row
      .map((cell, at) => (at === columns - 1 ? cell : padCell(cell, widths[at] ?? 0)))
      .join("  ");
    return width === null ? line.trimEnd() : truncateToWidth(line.trimEnd(), width);
  });
}

function padCell(cell: string, width: number): string {
  return cell + " ".repeat(Math.max(0, width - displayWidth(cell)));
}

/** With its head in bold, no wider than the terminal, and nothing in it that a terminal would act upon. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const safe = rows.map((row) => row.map(sanitizeLine));
  // Not every terminal says how wide it is.
  const width = isatty(1) ? process.stdout.columns || null : null;
  const [first = "", ...rest] = formatTable([head, ...safe], width);
  print(`${[paletteFor(1).bold(first), ...rest].join("\n")}\n`);
}
