import { type Compilable, type RawBuilder, sql, type UpdateObject } from "kysely";
import { LeaseLost, RunExists } from "../../errors.js";
import { runTable, type Schema } from "../schema.js";
import { countChanged, fetchRows, hasChanged, type SqlEngine, type Steps } from "../sql/engine.js";
import { changedFields, newRunRecord } from "./apply-change.js";
import type { EventLog } from "./events.js";
import type { Lease, LeaseRequest, RunChange, RunWrites, TerminalRunChange } from "./contract.js";

const STARTED = sql<number>`coalesce(started_at, created_at)`;

/**
 * The columns that one change writes; `applyRunChange` does the same to a record. Only rows that have not exited are
 * updated, so each expression must be right for `starting`, `running` and `exiting` only.
 */
function changeColumns(change: RunChange): UpdateObject<Schema, "runs"> {
  return { ...runTable.toColumns(changedFields(change)), ...computedColumns(change), updated_at: Date.now() };
}

function computedColumns(change: RunChange): UpdateObject<Schema, "runs"> {
  if (change.to === "running")
    return {
      // The start may be reported after the stop; then the state stays.
      state: sql`case when state = 'starting' then 'running' else state end`,
      // Reported twice (after a reattach), the first time is the start.
      started_at: sql`coalesce(started_at, ${change.at})`,
    };
  if (change.to === "exiting") return { state: "exiting" };
  if (change.to !== "exited") return {};
  // The wall clock may have been set back: an end before the start is never recorded.
  return { ended_at: sql`case when ${change.at} < ${STARTED} then ${STARTED} else ${change.at} end` };
}

/** A literal, not a parameter, so that the partial index of open runs is used. */
const notExited = sql<boolean>`state <> 'exited'`;

/** Runs named in one statement: far below the limit of any database. */
const IDS_PER_STATEMENT = 100;

export function runWrites(engine: SqlEngine, log: EventLog): RunWrites {
  const { db } = engine;
  return {
    async insertRun(run, leaseMs, events = []) {
      const row = {
        ...runTable.toColumns(newRunRecord(run, 0)),
        lease_expires_at: leaseExpiry(engine, leaseMs),
      };
      const insert = db.insertInto("runs").values(row);
      const inserted = await log.write(events, () =>
        hasChanged(insert.onConflict((conflict) => conflict.column("run_id").doNothing())),
      );
      if (!inserted) throw new RunExists(run.runId);
      return { runId: run.runId, ownerInstanceId: run.ownerInstanceId, epoch: run.leaseEpoch };
    },
    async saveRun(lease, change, events = []) {
      const written = await log.write(events, () => saveChange(engine, lease, change));
      // The end of a run must survive power loss, because others are notified of it. Earlier changes need not: power loss also
      // ends the processes. Flushed also if nothing was written: an earlier flush may have failed.
      if (change.to === "exited") await engine.flush();
      return written;
    },
    async acquireLease(claim, events = []) {
      const { runId, ownerInstanceId, epoch } = claim;
      const acquired = await log.write(events, () => hasChanged(compareAndSwapLease(engine, claim)));
      return acquired ? { runId, ownerInstanceId, epoch } : null;
    },
    async acquireAndFinalizeRun(claim, end, events = []) {
      const ended = await log.writeInTransaction(events, () => acquireAndFinalize(engine, claim, end));
      if (ended) await engine.flush();
      return ended;
    },
    async restoreRun(run, leaseMs, events = []) {
      const row = { ...runTable.toColumns(run), lease_expires_at: leaseExpiry(engine, leaseMs) };
      const insert = db
        .insertInto("runs")
        .values(row)
        .onConflict((conflict) =>
          conflict
            .column("run_id")
            .doUpdateSet(row)
            .where("runs.state", "<>", "exited")
            .where("runs.lease_epoch", "<=", run.leaseEpoch),
        );
      const restored = await log.write(events, () => hasChanged(insert));
      if (restored && run.state === "exited") await engine.flush();
      return restored;
    },
    renewLeases(ownerInstanceId, leaseMs) {
      const renew = db
        .updateTable("runs")
        .set({ lease_expires_at: leaseExpiry(engine, leaseMs) })
        .where("owner_instance_id", "=", ownerInstanceId)
        .where(notExited);
      return engine.perform(() => countChanged(renew));
    },
    async appendEvents(events) {
      await log.write(events, alwaysTrue);
    },
    hideRuns: (runIds, at) => engine.transact(() => hideRuns(engine, runIds, at)),
    deleteRuns: (runIds) => engine.transact(() => deleteRuns(engine, runIds)),
  };
}

function* saveChange(engine: SqlEngine, lease: Lease, change: RunChange): Steps<boolean> {
  if (yield* hasChanged(updateOwned(engine, lease, change))) return true;
  const [run] = yield* fetchRows(
    engine.db.selectFrom("runs").select(["state", "owner_instance_id"]).where("run_id", "=", lease.runId),
  );
  if (run?.state === "exited") return false;
  const owner = run?.owner_instance_id ?? null;
  throw new LeaseLost(lease.runId, lease.epoch, owner === lease.ownerInstanceId ? null : owner);
}

function* acquireAndFinalize(engine: SqlEngine, claim: LeaseRequest, end: TerminalRunChange): Steps<boolean> {
  return (
    (yield* hasChanged(compareAndSwapLease(engine, claim))) &&
    (yield* hasChanged(updateOwned(engine, claim, end)))
  );
}

function* hideRuns({ db }: SqlEngine, runIds: readonly string[], at: number): Steps<number> {
  const hide = db.updateTable("runs").set({ hidden_at: at }).where("hidden_at", "is", null);
  let hidden = 0;
  for (const some of chunksOf(runIds)) hidden += yield* countChanged(hide.where("run_id", "in", some));
  return hidden;
}

function* deleteRuns({ db }: SqlEngine, runIds: readonly string[]): Steps<number> {
  let deleted = 0;
  for (const some of chunksOf(runIds)) {
    const gone = yield* fetchRows(
      db.deleteFrom("runs").where("run_id", "in", some).where("state", "=", "exited").returning("run_id"),
    );
    if (gone.length === 0) continue;
    const ids = gone.map(({ run_id }) => run_id);
    yield* countChanged(db.deleteFrom("run_events").where("run_id", "in", ids));
    deleted += gone.length;
  }
  return deleted;
}

function compareAndSwapLease(engine: SqlEngine, claim: LeaseRequest): Compilable {
  const { runId, from, ownerInstanceId, epoch, leaseMs, expiredForMs } = claim;
  if (epoch <= from.epoch) throw new Error(`epoch ${epoch} is not above ${from.epoch}`);
  const swap = engine.db
    .updateTable("runs")
    .set({
      owner_instance_id: ownerInstanceId,
      lease_epoch: epoch,
      lease_expires_at: leaseExpiry(engine, leaseMs),
      updated_at: Date.now(),
    })
    .where("run_id", "=", runId)
    .where("owner_instance_id", "=", from.ownerInstanceId)
    .where("lease_epoch", "=", from.epoch)
    .where(notExited);
  return expiredForMs === null
    ? swap
    : swap.where("lease_expires_at", "<=", leaseExpiry(engine, -Math.ceil(expiredForMs)));
}

/** Checks owner and epoch, so that an instance whose lease was stolen changes nothing. */
function updateOwned({ db }: SqlEngine, lease: Lease, change: RunChange): Compilable {
  return db
    .updateTable("runs")
    .set(changeColumns(change))
    .where("run_id", "=", lease.runId)
    .where("owner_instance_id", "=", lease.ownerInstanceId)
    .where("lease_epoch", "=", lease.epoch)
    .where(notExited);
}

function leaseExpiry({ dialect }: SqlEngine, leaseMs: number): RawBuilder<number> {
  return sql<number>`${dialect.now()} + ${Math.ceil(leaseMs)}`;
}

function* chunksOf(runIds: readonly string[]): Generator<readonly string[], void, undefined> {
  for (let at = 0; at < runIds.length; at += IDS_PER_STATEMENT)
    yield runIds.slice(at, at + IDS_PER_STATEMENT);
}

// oxlint-disable-next-line require-yield -- it takes no step
function* alwaysTrue(): Steps<boolean> {
  return true;
}
