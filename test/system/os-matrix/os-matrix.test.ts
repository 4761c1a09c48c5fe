import { describe, test } from "vitest";
import { openSupervisor } from "../../../src/supervisor/open.js";
import { useDarwinAnchor, whyNoDarwinShim } from "../../support/darwin/darwin-anchor.js";
import type { CellResult, Platform } from "./cells/cell.js";
import { matrix, runCell } from "./cells/run-cells.js";

const linux: Platform = {
  name: "Linux",
  tier: /^(?:cgroup|subreaper)\b/,
  openSupervisor,
  deadlineMs: 1_500,
};
const macOs: Platform = { ...linux, name: "macOS (shims)", tier: /^lineage\b/ };

const results = new Map<string, CellResult[]>();

/** The cells on this machine, with the anchor that `HOLDFAST_ANCHOR` names. */
function testCells(platform: Platform): void {
  const own: CellResult[] = [];
  results.set(platform.name, own);
  test.concurrent.for(matrix.map(({ cell, io }) => [cell.name, io, cell] as const))(
    "%s, %s",
    async ([, io, cell], { skip }) => {
      const result = await runCell(cell, io, platform);
      own.push(result);
      if (result.outcome === "skipped") skip(result.message);
      if (result.outcome === "failed") throw new Error(result.message);
    },
  );
}

describe("Linux", () => testCells(linux));

describe.skipIf(whyNoDarwinShim !== null)("macOS, over shims on Linux", () => {
  useDarwinAnchor();
  testCells(macOs);
});
