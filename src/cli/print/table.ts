import { isatty } from "node:tty";
import { sanitizeLine } from "../../text/sanitize.js";
import { displayWidth, truncateToWidth } from "../../text/display-width.js";
import { print } from "./write-output.js";
import { paletteFor } from "./colours-and-progress.js";

/** Columns of stdout; null: it is no terminal, or a terminal that does not know its width and reports 0. */
export function terminalWidth(): number | null {
  return isatty(1) ? process.stdout.columns || null : null;
}

/** A column of a table. */
interface Column {
  readonly name: string;
  /** Columns with a number are left out of a narrow table, the lowest number first. */
  readonly optional?: number;
}

/** Room that a narrow table leaves for its last column before it drops others. */
const LAST_COLUMN_WIDTH = 24;

/**
 * Lines of a table, the head first. The last column takes the rest of `width` (null: all it needs). Optional columns are
 * dropped while the last column would get less than LAST_COLUMN_WIDTH.
 */
export function formatTable(
  columns: readonly (Column | string)[],
  rows: readonly (readonly string[])[],
  width: number | null,
): string[] {
  const head = columns.map((column) => (typeof column === "string" ? { name: column } : column));
  const all = [head.map(({ name }) => name), ...rows];
  const widths = head.map((_, at) => Math.max(...all.map((row) => displayWidth(row[at] ?? ""))));
  const kept = keptColumns(head, widths, width);
  return all.map((row) => {
    const line = kept
      .map((at) => (at === head.length - 1 ? (row[at] ?? "") : padCell(row[at] ?? "", widths[at] ?? 0)))
      .join("  ")
      .trimEnd();
    return width === null ? line : truncateToWidth(line, width);
  });
}

/** The indices of the columns that fit. */
function keptColumns(head: readonly Column[], widths: readonly number[], width: number | null): number[] {
  let kept = [...head.keys()];
  if (width === null) return kept;
  const last = head.length - 1;
  const needed = Math.min(widths[last] ?? 0, LAST_COLUMN_WIDTH);
  const order = kept
    .filter((at) => at !== last && head[at]?.optional !== undefined)
    .toSorted((a, b) => (head[a]?.optional ?? 0) - (head[b]?.optional ?? 0));
  for (const dropped of order) {
    const used = kept.filter((at) => at !== last).reduce((sum, at) => sum + (widths[at] ?? 0) + 2, 0);
    if (used + needed <= width) break;
    kept = kept.filter((at) => at !== dropped);
  }
  return kept;
}

function padCell(cell: string, width: number): string {
  return cell + " ".repeat(Math.max(0, width - displayWidth(cell)));
}

/** Prints a table with a bold head, without characters that a terminal acts on. By default it is cut to the terminal. */
export function printTable(
  columns: readonly (Column | string)[],
  rows: readonly (readonly string[])[],
  width = terminalWidth(),
): void {
  const safe = rows.map((row) => row.map(sanitizeLine));
  const [first = "", ...rest] = formatTable(columns, safe, width);
  print(`${[paletteFor(1).bold(first), ...rest].join("\n")}\n`);
}
