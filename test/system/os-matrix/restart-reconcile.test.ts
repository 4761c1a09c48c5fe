import { expect, test } from "vitest";
import { waitForPidsGone } from "./processes.js";
import { expectEnd, fixtureCommand, readTreePids, OsFixture } from "./os-fixture.js";

test("restart-reconcile: the run of a killed supervisor is found alive, goes on, and ends once", async () => {
  await using context = await OsFixture.open();
  const victim = await context.victim("in_stable", fixtureCommand("tree", "1"));
  await victim.kill();
  const supervisor = await context.supervisor("in_stable");
  const { decisions, runs } = await supervisor.reconcile();
  expect(decisions).toMatchObject([{ runId: victim.runId, row: "anchor-alive", action: "continue" }]);
  const [run] = runs;
  if (run === undefined) throw new Error("it was not taken up");
  const pids = await readTreePids(run, 2);
  expect((await supervisor.reconcile()).decisions).toEqual([]);
  await run.cancel({ actor: "test:me" });
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "test:me" });
  await expectEnd(supervisor, record, pids);
  expect(context.problems).toEqual([]);
});

test("restart-reconcile: what ended while nobody was there has its true end", async () => {
  await using context = await OsFixture.open();
  const victim = await context.victim("in_stable", fixtureCommand("exit", "5", "500"));
  await victim.kill();
  const supervisor = await context.supervisor("in_stable");
  const root = (await supervisor.getRun(victim.runId))?.root?.pid ?? 0;
  await waitForPidsGone([root]);
  for (const run of (await supervisor.reconcile()).runs) await run.wait();
  const record = await supervisor.getRun(victim.runId);
  if (record === null) throw new Error("its record is gone");
  expect(record.exit).toMatchObject({ reason: "exit", code: 5 });
  await expectEnd(supervisor, record, [root]);
  expect(await supervisor.reconcile()).toEqual({ decisions: [], runs: [] });
  expect(context.problems).toEqual([]);
});
