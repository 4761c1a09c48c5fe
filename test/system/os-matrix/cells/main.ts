// Bundled to one file, which runs the matrix on Windows with `dist/index.js`, and prints the results as JSON. Needs the
// checkout as working directory. The word `wine`: under Wine.
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { runConcurrently } from "../../../../src/async/concurrency.js";
import type { openSupervisor } from "../../../../src/supervisor/open.js";
import type { Platform } from "./cell.js";
import { matrix, runCell } from "./run-cells.js";

const library = (await import(pathToFileURL(resolve("dist/index.js")).href)) as {
  readonly openSupervisor: typeof openSupervisor;
};
const windows: Platform = {
  name: process.argv.includes("wine") ? "Windows (Wine)" : "Windows",
  tier: /^job\b/,
  openSupervisor: library.openSupervisor,
  // Under Wine a process of Node needs more than a second to start.
  deadlineMs: 6_000,
};
const work = matrix.map(
  ({ cell, io }) =>
    () =>
      runCell(cell, io, windows),
);
console.log(JSON.stringify(await runConcurrently(4, work)));
