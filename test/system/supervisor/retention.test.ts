import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { forgetRun } from "../../../src/supervisor/end/terminal-record.js";
import { readProcess } from "../../support/live-processes.js";
import { type SandboxTier, tiers } from "../../support/sandbox.js";
import {
  FIRST_INSTANCE,
  NEXT_INSTANCE,
  orphanScenario,
  SharedHome,
} from "../../support/supervisor/shared-home.js";
import {
  plantLookalike,
  waitForOutput,
  findProcessesOfRun,
  realSupervisor,
  shellInput,
  temporaryHome,
} from "../../support/supervisor/real-supervisor.js";
import { waitFor } from "../../support/wait-for.js";

test("ended runs are deleted with their directories, a live one is kept, and no orphan is found afterwards", async () => {
  const home = await temporaryHome();
  plantLookalike("sleep", "3051");
  const supervisor = await realSupervisor({ home, instanceId: "in_stable" });
  const directory = (runId: string): string => join(home, "instances/in_stable/runs", runId);
  const live = await supervisor.spawn(shellInput("sleep 3051 & echo up; wait"));
  await waitForOutput(live, "up");
  const ended = await supervisor.spawn(shellInput("echo a lot"));
  const later = await supervisor.spawn(shellInput("sleep 0.05; echo more"));
  const records = await Promise.all([ended.wait(), later.wait()]);
  // A run is not removed at the moment of its end, while its anchor is still exiting.
  for (const { anchor } of records)
    await waitFor("its anchor has left", () => readProcess(anchor?.pid ?? 0) === null);
  expect(existsSync(directory(ended.runId))).toBe(true);

  expect(await supervisor.retain()).toEqual({ records: 0, outputs: 0 });
  expect(await supervisor.retain({ endedKept: 1 })).toEqual({ records: 1, outputs: 0 });
  expect(existsSync(directory(ended.runId))).toBe(false);
  expect(await supervisor.getRun(ended.runId)).toBeNull();

  expect(await supervisor.retain({ outputKeptBytes: 0 })).toEqual({ records: 0, outputs: 1 });
  expect(existsSync(directory(later.runId))).toBe(false);
  expect(await supervisor.getRun(later.runId)).toMatchObject({ state: "exited", exit: { code: 0 } });
  expect((await later.read("stdout")).bytes).toHaveLength(0);

  expect(await supervisor.reconcile()).toEqual({ decisions: [], runs: [] });
  expect((await supervisor.listRuns()).map(({ runId }) => runId).toSorted()).toEqual(
    [live.runId, later.runId].toSorted(),
  );
  expect(await findProcessesOfRun(live.runId)).not.toEqual([]);
  expect(existsSync(directory(live.runId))).toBe(true);
});

/** Ends the record as an operator does, whatever is alive. */
async function abandon({ home }: SharedHome, runId: string): Promise<void> {
  await using store = await openSqliteStore({ path: join(home, "store.sqlite") });
  const record = await store.getRun(runId);
  if (record === null || !(await forgetRun(store, record, "operator"))) throw new Error("it was not ended");
}

for (const [what, tier, anchorDies] of [
  ["processes in its cgroup", tiers.cgroup, true],
  ["a live anchor", tiers.none, false],
] as const satisfies readonly (readonly [string, SandboxTier, boolean])[])
  test(`an ended run with ${what} is kept until they are gone, and has one end`, async ({ skip }) => {
    if (tier.whyNot !== null) skip(tier.whyNot);
    await using sharedHome = await SharedHome.open(tier);
    const runId = await orphanScenario(sharedHome);
    if (anchorDies) await sharedHome.stopAnchors(FIRST_INSTANCE);
    await abandon(sharedHome, runId);
    const next = await sharedHome.supervisor(NEXT_INSTANCE);

    expect(await next.retain({ endedKept: 0, outputKeptBytes: 0 })).toEqual({ records: 0, outputs: 0 });
    expect(sharedHome.tokenProcesses.ofRuns()).toHaveLength(5);
    expect(await next.reconcile()).toEqual({ decisions: [], runs: [] });
    await sharedHome.tokenProcesses.waitUntilGone(5_000);
    expect(sharedHome.eventTypes(runId).filter((type) => type === "exit")).toHaveLength(1);
    expect(await next.getRun(runId)).toMatchObject({ state: "exited", emptiness: "unproven" });

    await sharedHome.stopAllRuns(next);
    expect(await next.getRun(runId)).toBeNull();
  });
