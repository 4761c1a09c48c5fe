import { isatty } from "node:tty";
import { sanitizeLine } from "../../text/sanitize.js";
import { paletteFor } from "../print/palette.js";
import { print } from "../print/stdout.js";
import { formatTable } from "../print/table.js";

/** With its head in bold, no wider than the terminal, and nothing in it that a terminal would act upon. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const safe = rows.map((row) => row.map(sanitizeLine));
  // Not every terminal says how wide it is.
  const width = isatty(1) ? process.stdout.columns || null : null;
  const [first = "", ...rest] = formatTable([head, ...safe], width);
  print(`${[paletteFor(1).bold(first), ...rest].join("\n")}\n`);
}
