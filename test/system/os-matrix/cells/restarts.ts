import assert from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { hostMonotonicMs } from "../../../../src/async/clock.js";
import { canCreatePidNamespace, PidNamespaces } from "../../identity/pid-namespaces.js";
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

function withStore<T>(fixture: OsFixture, use: (db: DatabaseSyncInstance) => T): T {
  const db = new DatabaseSync(join(fixture.home, "store.sqlite"), { timeout: 5_000 });
  try {
    return use(db);
  } finally {
    db.close();
  }
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
    withStore(fixture, (db) => db.prepare("update runs set lease_expires_at = ?").run(hostMonotonicMs() - 1));
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

const reusedNumbers: Cell = {
  name: "pid reuse: the recorded pids belong to other processes",
  async run(fixture) {
    const victim = await fixture.victim("in_stable", fixture.tree(1));
    const pids = await fixture.treePids(2);
    await victim.kill();
    const anchor = withStore(fixture, (db): unknown =>
      db.prepare("select anchor_pid as pid from runs").get(),
    ) as { readonly pid: number };
    process.kill(anchor.pid, "SIGKILL");
    // The launcher, or the end of the job.
    await waitForPidsGone([anchor.pid, ...pids]);
    withStore(fixture, (db) =>
      db.prepare("update runs set anchor_pid = ?, root_pid = ?").run(...fixture.bystanderPids),
    );
    const supervisor = await fixture.supervisor("in_stable");
    assert.deepEqual((await supervisor.reconcile()).runs, []);
    const record = await supervisor.getRun(victim.runId);
    assert.ok(record !== null, "its record is gone");
    await fixture.checkEnd(supervisor, record, { reason: "lost" }, pids);
  },
};

const forcedReuse: Cell = {
  name: "pid reuse: in the same clock tick",
  whyNot({ name }, io) {
    if (name !== "Linux") return "a pid can be chosen only on Linux";
    if (io === "pty") return "the driver of `test/system/identity` has no terminal";
    return canCreatePidNamespace() ? null : "no PID namespace can be created here";
  },
  async run() {
    const rounds = 1;
    const namespaces = await PidNamespaces.open();
    try {
      const outcome = (await namespaces.runDriver("pid-reuse", [String(rounds)])) as {
        readonly reaped: readonly { readonly alive: boolean; readonly fate: object }[];
        readonly recovered: { readonly ends: readonly { readonly reason: string; readonly fate: object }[] };
      };
      const untouched = { alive: true, stopped: false, signals: [] };
      assert.ok(outcome.reaped.length > 0 && outcome.recovered.ends.length > 0);
      for (const { fate } of outcome.reaped) assertFields(fate, untouched);
      for (const { reason, fate } of outcome.recovered.ends)
        assert.deepEqual({ reason, fate }, { reason: "lost", fate: untouched });
    } finally {
      await namespaces[Symbol.asyncDispose]();
    }
  },
};

export const restartCells: readonly Cell[] = [continues, endsAlone, contention, reusedNumbers, forcedReuse];
