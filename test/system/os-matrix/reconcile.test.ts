import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { hostMonotonicMs } from "../../../src/async/clock.js";
import { expectEnd, fixtureCommand, OsFixture, readTreePids, waitForPidsGone } from "./os-fixture.js";

test("restart-reconcile: the run of a killed supervisor is found alive, continues, and ends once", async () => {
  await using context = await OsFixture.open();
  const victim = await context.victim("in_stable", fixtureCommand("tree", "1"));
  await victim.kill();
  const supervisor = await context.supervisor("in_stable");
  const { decisions, runs } = await supervisor.reconcile();
  expect(decisions).toMatchObject([{ runId: victim.runId, row: "anchor-alive", action: "continue" }]);
  const [run] = runs;
  if (run === undefined) throw new Error("the run was not attached");
  const pids = await readTreePids(run, 2);
  expect((await supervisor.reconcile()).decisions).toEqual([]);
  await run.cancel({ actor: "test:me" });
  const record = await run.wait();
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "test:me" });
  await expectEnd(supervisor, record, pids);
  expect(context.problems).toEqual([]);
});

test("restart-reconcile: a run that ended without a supervisor has its true end", async () => {
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

const CONTENDERS = 4;

test("lease-contention: one of several supervisors owns an orphan, and it ends once", async () => {
  await using context = await OsFixture.open();
  const victim = await context.victim("in_victim", fixtureCommand("tree", "1"));
  const contenders = await Promise.all(Array.from({ length: CONTENDERS }, () => context.supervisor()));
  // No supervisor acquires the lease of a live owner.
  for (const each of contenders) expect(await each.reconcile()).toEqual({ decisions: [], runs: [] });
  await victim.kill();
  const db = new DatabaseSync(join(context.home, "store.sqlite"), { timeout: 5_000 });
  db.prepare("update runs set lease_expires_at = ?").run(hostMonotonicMs() - 1);
  db.close();

  const found = await Promise.all(contenders.map((each) => each.reconcile()));
  const owners = contenders.filter((_, at) => (found[at]?.runs.length ?? 0) > 0);
  expect(owners).toHaveLength(1);
  const [owner] = owners;
  const run = owner?.run(victim.runId);
  if (owner === undefined || run === null || run === undefined) throw new Error("no supervisor owns it");
  const pids = await readTreePids(run, 2);
  for (const each of contenders) await each.reconcile({ terminate: true });
  // Only its owner can end it.
  expect(run.state).toBe("running");
  await run.cancel({ actor: "test:me" });
  const record = await run.wait();
  expect(record).toMatchObject({
    ownerInstanceId: owner.instanceId,
    leaseEpoch: 2,
    exit: { reason: "manual-cancel", actor: "test:me" },
  });
  await expectEnd(owner, record, pids);
  const events = await owner.listEvents({ runId: victim.runId });
  const count = (type: string): number => events.filter((event) => event.type === type).length;
  expect({ reconcile: count("reconcile"), cancel: count("cancel"), exit: count("exit") }).toEqual({
    reconcile: 1,
    cancel: 1,
    exit: 1,
  });
  expect(context.problems).toEqual([]);
});
