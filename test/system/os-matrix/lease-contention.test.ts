import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { hostMonotonicMs } from "../../../src/async/clock.js";
import { expectEnd, fixtureCommand, OsFixture, readTreePids } from "./os-fixture.js";

const CONTENDERS = 4;

test("lease-contention: of several who find an orphan, one owns it, and it is ended once", async () => {
  await using context = await OsFixture.open();
  const victim = await context.victim("in_victim", fixtureCommand("tree", "1"));
  const contenders = await Promise.all(Array.from({ length: CONTENDERS }, () => context.supervisor()));
  // While its owner lives, nobody may have it.
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
  if (owner === undefined || run === null || run === undefined) throw new Error("nobody has it");
  const pids = await readTreePids(run, 2);
  for (const each of contenders) await each.reconcile({ terminate: true });
  // Nobody but its owner could: it lives.
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
