import { type Cell, type CellResult, type Io, ios, type Platform } from "./cell.js";
import { endCells } from "./ends.js";
import { OsFixture } from "./os-fixture.js";
import { restartCells } from "./restarts.js";
import { treeCells } from "./trees.js";

export const cells: readonly Cell[] = [...endCells, ...treeCells, ...restartCells];

/** Every scenario with every kind of standard handles. */
export const matrix = cells.flatMap((cell) => ios.map((io) => ({ cell, io })));

export async function runCell(cell: Cell, io: Io, platform: Platform): Promise<CellResult> {
  const result = { cell: cell.name, io };
  const whyNot = cell.whyNot?.(platform, io) ?? null;
  if (whyNot !== null) return { ...result, outcome: "skipped", message: whyNot };
  try {
    await using fixture = await OsFixture.open(platform, io);
    await cell.run(fixture);
  } catch (error) {
    return {
      ...result,
      outcome: "failed",
      message: error instanceof Error ? (error.stack ?? "") : String(error),
    };
  }
  return { ...result, outcome: "passed", message: "" };
}
