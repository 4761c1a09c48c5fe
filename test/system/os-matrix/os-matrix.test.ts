import { beforeAll, describe, expect, test } from "vitest";
import { openSupervisor } from "../../../src/supervisor/open.js";
import { useDarwinAnchor, whyNoDarwinShim } from "../../support/darwin/darwin-anchor.js";
import { scaled } from "../../support/scale.js";
import { isWindows, whyNoWindows } from "../../support/windows/windows-fixture.js";
import type { CellResult, Platform } from "./cells/cell.js";
import { cells, matrix, runCell } from "./cells/run-cells.js";
import { hasPwsh } from "./cells/trees.js";
import { formatTable, readTable, writeTable } from "./table.js";
import { runWindowsCells } from "./windows-cells.js";

/** Set to 1 to rewrite the table of docs/reference/platforms.md with the results of this run. */
const rewriting = process.env["HOLDFAST_WRITE_TRANSCRIPTS"] === "1";

const linux: Platform = {
  name: "Linux",
  tier: /^(?:cgroup|subreaper)\b/,
  openSupervisor,
  // Not longer than Windows' under Wine, because the cells share their time limit.
  deadlineMs: Math.min(scaled(1_500), 6_000),
};
const macOs: Platform = { ...linux, name: "macOS (shims)", tier: /^lineage\b/ };

/** In the order of the table. */
const results = {
  linux: [] as CellResult[],
  windows: [] as CellResult[],
  macOs: [] as CellResult[],
};

/** One test for each cell. */
function testCells(
  into: CellResult[],
  observe: (cell: (typeof matrix)[number]) => Promise<CellResult>,
): void {
  test.concurrent.for(matrix.map((each) => [each.cell.name, each.io, each] as const))(
    "%s, %s",
    async ([, , each], { skip }) => {
      const result = await observe(each);
      into.push(result);
      if (result.outcome === "skipped") skip(result.message);
      if (result.outcome === "failed") throw new Error(result.message);
    },
  );
}

/** A Mac has its own anchor, and needs no shims. */
const here = process.platform === "darwin" ? macOs : linux;

describe.skipIf(process.platform === "win32")("this system", () => {
  testCells(results.linux, ({ cell, io }) => runCell(cell, io, here));
});

describe.skipIf(whyNoDarwinShim !== null)("macOS, over shims on Linux", () => {
  useDarwinAnchor();
  testCells(results.macOs, ({ cell, io }) => runCell(cell, io, macOs));
});

describe.skipIf(whyNoWindows !== null)(isWindows ? "Windows" : "Windows, under Wine", () => {
  let seen: readonly CellResult[] = [];
  beforeAll(async () => {
    seen = await runWindowsCells();
  }, 600_000);
  testCells(results.windows, ({ cell, io }) => {
    const result = seen.find((each) => each.cell === cell.name && each.io === io);
    return result === undefined ? Promise.reject(new Error("the cell did not run")) : Promise.resolve(result);
  });
});

test("the table of the docs shows the results of this run", ({ skip }) => {
  const whyNot =
    whyNoDarwinShim ?? whyNoWindows ?? (hasPwsh ? "the table is of a machine without pwsh" : null);
  if (whyNot !== null) skip(whyNot);
  const table = formatTable(
    cells.map(({ name }) => name),
    [
      { platform: "Linux", results: results.linux },
      { platform: "Windows (Wine)", results: results.windows },
      { platform: "macOS (shims)", results: results.macOs },
    ],
  );
  if (rewriting) writeTable(table);
  expect(readTable()).toBe(table);
});
