import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { compareWithGoals, goals, goalsWithoutRow } from "../../bench/goals.mjs";
import { reasonOf, reasons } from "../../bench/reasons.mjs";
import { temporaryDirectory } from "../support/temporary-directory.js";

const row = (ratio: string): Record<string, string> => ({
  measured: "spawn to exit, ms (small process)",
  "holdfast p50/p99": "2.00 / 4.00",
  "ratio p50": ratio,
});

function compared(...ratios: string[]): unknown {
  const [first] = compareWithGoals({ spawn: ratios.map((ratio) => [row(ratio)]) });
  return { range: first?.range, verdict: first?.verdict };
}

test("a goal is met only if every round meets it", () => {
  expect(compared("0.90", "0.95", "1.00")).toEqual({ range: "0.9 to 1×", verdict: "met" });
  expect(compared("0.90", "1.01", "0.95")).toEqual({ range: "0.9 to 1.01×", verdict: "met in 2 of 3" });
  expect(compared("1.20", "1.10")).toEqual({ range: "1.1 to 1.2×", verdict: "MISSED" });
});

test("a goal whose row is missing in every round is not measured, and never met", () => {
  const [first] = compareWithGoals({ spawn: [[{ measured: "something else", ratio: "0.1" }]] });
  expect(first).toMatchObject({ range: "-", verdict: "not measured" });
});

const RECONCILED = [
  { measured: "10000 of a stuck owner, verified alive", "µs per record": "20.0" },
  { measured: "10000 of a dead owner: ended on record", "µs per record": "50.0" },
];

/** Prints saved results of the part `reconcile` and measures nothing. */
async function printSaved(rows: readonly object[]): Promise<{ status: number | null; stderr: string }> {
  await using directory = await temporaryDirectory();
  const results = join(directory.path, "results.json");
  writeFileSync(results, JSON.stringify({ reconcile: [{ seconds: 1, rows }] }));
  const args = ["bench/run.mjs", "--only", "reconcile", "--rounds", "0", "--resume", "--results", results];
  return spawnSync(process.execPath, args, { encoding: "utf8" });
}

test("npm run bench fails and names the goal if a part does not print its row", async () => {
  const [alive, ended] = RECONCILED;
  expect(await printSaved(RECONCILED)).toMatchObject({ status: 0, stderr: "" });
  const renamed = await printSaved([{ ...alive, measured: "10000 of another owner" }, { ...ended }]);
  expect(renamed.status).toBe(1);
  expect(renamed.stderr).toContain('the goal "reconcile per record: verified alive" cannot be compared');
  expect(renamed.stderr).not.toContain("ended on record");
});

test("a round without the row or the column of a goal is found, a part that was not measured is not", () => {
  const column = RECONCILED.map(({ measured }) => ({ measured, ms: "20.0" }));
  const works = (results: Parameters<typeof goalsWithoutRow>[0]) =>
    goalsWithoutRow(results).map(({ work }) => work);
  expect(works({})).toEqual([]);
  expect(works({ reconcile: [RECONCILED] })).toEqual([]);
  expect(works({ reconcile: [RECONCILED, column] })).toEqual([
    "reconcile per record: verified alive",
    "reconcile per record: ended on record",
  ]);
});

test("every goal is measured by a part that npm run bench knows", () => {
  const run = readFileSync("bench/run.mjs", "utf8");
  const parts = new Map(
    [...run.matchAll(/^ {2}"?([\w-]+)"?: \["([\w-]+\.mjs)"/gm)].map(([, name = "", script = ""]) => [
      name,
      script,
    ]),
  );
  for (const { part } of goals) {
    expect(parts.has(part), part).toBe(true);
    expect(existsSync(`bench/${parts.get(part)}`), part).toBe(true);
  }
});

test("every reason of a miss belongs to a goal", () => {
  expect(Object.keys(reasons).filter((work) => !goals.some((goal) => goal.work === work))).toEqual([]);
});

test("a reason quotes the measured figures, or that they were not measured", () => {
  const work = "KILL to terminal record, 1 process";
  const rows = ["0.45", "0.50"].map((ms) => [
    { measured: "kill of 1 process, its end recorded and synced", "ms p50/p99": `${ms} / 1.23` },
  ]);
  expect(reasonOf(work, { floor: rows })).toContain("Plain Node takes 0.45 to 0.5 ms to kill");
  expect(reasonOf(work, {})).toContain("Plain Node takes (not measured) to kill");
  expect(() => reasonOf(work, { floor: [[]] })).toThrow('floor printed no row "kill of 1 process');
});
