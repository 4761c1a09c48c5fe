import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { type CellResult, type Io, ios } from "./cells/cell.js";

const page = resolve("docs/reference/platforms.md");
/** The lines of the page that this module writes. */
const generated = /(<!-- os-matrix: ?begin -->\n)([^]*?)(<!-- os-matrix: ?end -->)/;

export interface Column {
  readonly platform: string;
  readonly results: readonly CellResult[];
}

export function readTable(): string {
  const [, , table] = generated.exec(readFileSync(page, "utf8")) ?? [];
  if (table === undefined) throw new Error(`${page} has no markers of the OS matrix`);
  return table;
}

export function writeTable(table: string): void {
  const text = readFileSync(page, "utf8");
  writeFileSync(
    page,
    text.replace(generated, (_, begin: string, _old, end: string) => begin + table + end),
  );
}

/** A column for each platform and kind of standard handles, the reasons of what was skipped, and counts. */
export function formatTable(names: readonly string[], columns: readonly Column[]): string {
  const reasons: string[] = [];
  const mark = (result: CellResult | undefined): string => {
    if (result === undefined) throw new Error("a cell has no result");
    if (result.outcome !== "skipped") return result.outcome;
    if (!reasons.includes(result.message)) reasons.push(result.message);
    return `skipped (${reasons.indexOf(result.message) + 1})`;
  };
  const find = ({ results }: Column, name: string, io: Io): CellResult | undefined =>
    results.find((each) => each.cell === name && each.io === io);
  const row = (cells: readonly string[]): string => `| ${cells.join(" | ")} |`;
  const label = { pipe: "pipe", pty: "PTY" };
  const rows = names.map((name) =>
    row([name, ...columns.flatMap((column) => ios.map((io) => mark(find(column, name, io))))]),
  );
  const header = row([
    "scenario",
    ...columns.flatMap(({ platform }) => ios.map((io) => `${platform}, ${label[io]}`)),
  ]);
  const counts = columns.map(({ platform, results }) => {
    const count = (outcome: string): number => results.filter((each) => each.outcome === outcome).length;
    return row([platform, ...["passed", "failed", "skipped"].map((outcome) => String(count(outcome)))]);
  });
  return [
    header,
    header.replaceAll(/[^|]+/g, "---"),
    ...rows,
    "",
    "Skipped, because:",
    "",
    ...reasons.map((reason, at) => `${at + 1}. ${reason}`),
    "",
    row(["platform", "passed", "failed", "skipped"]),
    "|---|---|---|---|",
    ...counts,
    "",
  ].join("\n");
}
