import { expect, test } from "vitest";
import { gone } from "./processes.js";
import { checkEnd, fixture, members, Stage } from "./stage.js";

test("restart-reconcile: the run of a killed supervisor is found alive, goes on, and ends once", async () => {
  await using stage = await Stage.open();
  const victim = await stage.victim("in_stable", fixture("tree", "1"));
  await victim.kill();
  const supervisor = await stage.supervisor("in_stable");
  const { decisions, runs } = await supervisor.reconcile();
  expect(decisions).toMatchObject([{ runId: victim.runId, row: "anchor-alive", action: "continue" }]);
  const [run] = runs;
  if (run === undefined) throw new Error("it was not taken up");
  const pids = await members(run, 2);
  expect((await supervisor.reconcile()).decisions).toEqual([]);
  await run.cancel({ actor: "test:me" });
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "test:me" });
  await checkEnd(supervisor, record, pids);
  expect(stage.problems).toEqual([]);
});

test("restart-reconcile: what ended while nobody was there has its true end", async () => {
  await using stage = await Stage.open();
  const victim = await stage.victim("in_stable", fixture("exit", "5", "500"));
  await victim.kill();
  const supervisor = await stage.supervisor("in_stable");
  const root = (await supervisor.getRun(victim.runId))?.root?.pid ?? 0;
  await gone([root]);
  for (const run of (await supervisor.reconcile()).runs) await run.wait();
  const record = await supervisor.getRun(victim.runId);
  if (record === null) throw new Error("its record is gone");
  expect(record.exit).toMatchObject({ reason: "exit", code: 5 });
  await checkEnd(supervisor, record, [root]);
  expect(await supervisor.reconcile()).toEqual({ decisions: [], runs: [] });
  expect(stage.problems).toEqual([]);
});
