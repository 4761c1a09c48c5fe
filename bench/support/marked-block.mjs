import { readFileSync, writeFileSync } from "node:fs";

const root = new URL("../../", import.meta.url);

/** Replaces what is between `<!-- bench: name -->` and `<!-- end of bench: name -->` in a page. */
export function writeBlock(page, name, text) {
  const path = new URL(page, root);
  const before = readFileSync(path, "utf8");
  const [open, close] = [`<!-- bench: ${name} -->`, `<!-- end of bench: ${name} -->`];
  const [from, to] = [before.indexOf(open), before.indexOf(close)];
  if (from < 0 || to < from) throw new Error(`${page} has no block ${open} … ${close}; nothing was written`);
  writeFileSync(path, `${before.slice(0, from)}${open}\n\n${text.trim()}\n\n${before.slice(to)}`);
}

/** A table in Markdown: a column for each name, in this order. */
export function markdownTable(columns, rows) {
  const line = (cells) => `| ${cells.map((cell) => String(cell).replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(columns), `|${columns.map(() => "---|").join("")}`, ...rows.map(line)].join("\n");
}
