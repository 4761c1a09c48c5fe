import assert from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { hostMonotonicMs } from "../../../../src/async/clock.js";
import type { Cell } from "./cell.js";
import { assertFields, nodeCommand, type OsFixture, waitForPidsGone } from "./os-fixture.js";

const continues: Cell = {
  name: "restart: a live run continues",
  async run(fixture) {
    const victim = await fixture.victim("in_stable", fixture.tree(1));
    const pids = await fixture.treePids(2);
    await victim.kill();
    const supervisor = await fixture.supervisor("in_stable");
    const { decisions, runs } = await supervisor.reconcile();
    assert.equal(decisions.length, 1);
    assertFields(decisions[0], { runId: victim.runId, row: "anchor-alive", action: "continue" });
    const [run] = runs;
    assert.ok(run !== undefined, "the run was not attached");
    assert.deepEqual((await supervisor.reconcile()).decisions, []);
    await run.cancel({ actor: "test:me" });
    const exit = { reason: "manual-cancel", actor: "test:me" };
    await fixture.checkEnd(supervisor, await run.wait(), exit, pids);
  },
};

const endsAlone: Cell = {
  name: "restart: a run that ended meanwhile has its true end",
  async run(fixture) {
    const victim = await fixture.victim("in_stable", nodeCommand("exit", "5", "500"));
    await victim.kill();
    const supervisor = await fixture.supervisor("in_stable");
    const root = (await supervisor.getRun(victim.runId))?.root?.pid ?? 0;
    await waitForPidsGone([root]);
    for (const run of (await supervisor.reconcile()).runs) await run.wait();
    const record = await supervisor.getRun(victim.runId);
    assert.ok(record !== null, "its record is gone");
    await fixture.checkEnd(supervisor, record, { reason: "exit", code: 5 }, [root]);
    assert.deepEqual(await supervisor.reconcile(), { decisions: [], runs: [] });
  },
};

function editRuns(fixture: OsFixture, change: string, ...values: readonly number[]): void {
  const db = new DatabaseSync(join(fixture.home, "store.sqlite"), { timeout: 5_000 });
  db.prepare(`update runs set ${change}`).run(...values);
  db.close();
}

const CONTENDERS = 4;

const contention: Cell = {
  name: "lease contention: one of four owns an orphan",
  async run(fixture) {
    const victim = await fixture.victim("in_victim", fixture.tree(1));
    const pids = await fixture.treePids(2);
    const contenders = await Promise.all(Array.from({ length: CONTENDERS }, () => fixture.supervisor()));
    // No supervisor acquires the lease of a live owner.
    for (const each of contenders) assert.deepEqual(await each.reconcile(), { decisions: [], runs: [] });
    await victim.kill();
    editRuns(fixture, "lease_expires_at = ?", hostMonotonicMs() - 1);
    const found = await Promise.all(contenders.map((each) => each.reconcile()));
    const owners = contenders.filter((_, at) => (found[at]?.runs.length ?? 0) > 0);
    assert.equal(owners.length, 1);
    const [owner] = owners;
    const run = owner?.run(victim.runId);
    assert.ok(owner !== undefined && run !== null && run !== undefined, "no supervisor owns it");
    for (const each of contenders) await each.reconcile({ terminate: true });
    // Only its owner can end it.
    assert.equal(run.state, "running");
    await run.cancel({ actor: "test:me" });
    const record = await run.wait();
    assertFields(record, { ownerInstanceId: owner.instanceId, leaseEpoch: 2 });
    await fixture.checkEnd(owner, record, { reason: "manual-cancel", actor: "test:me" }, pids);
    const events = await owner.listEvents({ runId: victim.runId });
    const counts = ["reconcile", "cancel", "exit"].map(
      (type) => events.filter((event) => event.type === type).length,
    );
    assert.deepEqual(counts, [1, 1, 1]);
  },
};

export const restartCells: readonly Cell[] = [continues, endsAlone, contention];
