import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readProcess } from "../../support/live-processes.js";
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
