import { type Compilable, type RawBuilder, sql } from "kysely";
import { LeaseLost, RunExists } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import { type RunRow, runTable } from "../schema.js";
import { countChanged, fetchRows, hasChanged, type SqlEngine, type Steps } from "../sql/engine.js";
import { type Placeholders, shapeOf } from "../sql/statement-cache.js";
import { newRunRecord } from "./apply-change.js";
import { changeValues, computedColumns } from "./change-columns.js";
import type { EventLog } from "./event-log.js";
import {
  changeRunsTogether,
  finalizeRunsTogether,
  insertRunsTogether,
  type NewRunCall,
  type RunChangeCall,
  type WrittenRuns,
} from "./grouped-writes.js";
import type { Lease, LeaseRequest, RunChange, RunWrites, TerminalRunChange } from "./contract.js";
import { selectRun, toRunRecord } from "./queries.js";

/** A literal, not a parameter, so that the partial index of open runs is used. */
const notExited = sql<boolean>`state <> 'exited'`;

/** Runs named in one statement: far below the limit of any database. */
const IDS_PER_STATEMENT = 100;

export function runWrites(engine: SqlEngine, log: EventLog): RunWrites {
  const { db } = engine;
  const insertRun = engine.group<NewRunCall, true>({
    async alone(call) {
      if (await log.write(call.events, () => hasChanged(insertNewRun(engine, call)))) return true;
      throw new RunExists(call.run.runId);
    },
    async together(calls) {
      const written = await insertRunsTogether(engine, calls);
      await noteEvents(log, calls, written);
      return calls.map(({ run }) => (written.rows.has(run.runId) ? true : undefined));
    },
    shapeOf: () => "",
    recordOf: ({ run }) => run.runId,
  });
  const saveRun = engine.group<RunChangeCall, boolean>({
    // Only an end must survive power loss, which also ends the processes.
    alone: ({ lease, change, events }) => log.write(events, () => saveChange(engine, lease, change)),
    async together(calls) {
      const written = await changeRunsTogether(engine, calls);
      await noteEvents(log, calls, written);
      return calls.map(({ lease }) => (written.rows.has(lease.runId) ? true : undefined));
    },
    shapeOf: shapeOfChange,
    recordOf: ({ lease }) => lease.runId,
  });
  const finalizeRun = engine.group<RunChangeCall, FinalizedRun>({
    async alone({ lease, change, events }) {
      const rows: RunRow[] = [];
      const isNew = await log.writeDurably(events, function* () {
        const [ended] = yield* fetchRows(endOwned(engine, lease, change));
        rows.push(ended ?? (yield* readEnded(engine, lease)));
        return ended !== undefined;
      });
      // The last one: the steps may be executed again.
      return { record: toRunRecord(rows.at(-1) as RunRow), isNew };
    },
    async together(calls) {
      const written = await finalizeRunsTogether(engine, calls);
      await noteEvents(log, calls, written);
      return calls.map(({ lease }) => {
        const row = written.rows.get(lease.runId);
        return row && { record: toRunRecord(row), isNew: true };
      });
    },
    shapeOf: shapeOfChange,
    recordOf: ({ lease }) => lease.runId,
  });
  return {
    async insertRun(run, leaseMs, events = [], gated) {
      await insertRun({ run, leaseMs, events, gated });
      return { runId: run.runId, ownerInstanceId: run.ownerInstanceId, epoch: run.leaseEpoch };
    },
    saveRun: async (lease, change, events = []) =>
      change.to === "exited"
        ? (await finalizeRun({ lease, change, events })).isNew
        : saveRun({ lease, change, events }),
    finalizeRun: async (lease, change, events = []) => (await finalizeRun({ lease, change, events })).record,
    async acquireLease(claim, events = []) {
      const { runId, ownerInstanceId, epoch } = claim;
      const acquired = await log.writeTogether(events, () => hasChanged(acquire(engine, claim)));
      return acquired ? { runId, ownerInstanceId, epoch } : null;
    },
    async acquireAndFinalizeRun(claim, end, events = []) {
      return log.writeDurably(events, () => hasChanged(acquire(engine, claim, end)));
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
    renewLeases: (ownerInstanceId, leaseMs) =>
      engine.perform(() => countChanged(renewLeases(engine, ownerInstanceId, leaseMs))),
    async appendEvents(events) {
      await log.write(events, alwaysTrue);
    },
    hideRuns: (runIds, at) => engine.transact(() => hideRuns(engine, runIds, at)),
    deleteRuns: (runIds) => engine.transact(() => deleteRuns(engine, runIds)),
  };
}

interface FinalizedRun {
  readonly record: RunRecord;
  /** False: it had ended before. */
  readonly isNew: boolean;
}

function shapeOfChange({ change }: RunChangeCall): string {
  return Object.keys(change).join(" ") + change.to;
}

/** After a statement that has committed the events of these calls. */
async function noteEvents(
  log: EventLog,
  calls: readonly { readonly events: readonly unknown[] }[],
  { stateIds, lastEvent }: WrittenRuns<unknown>,
): Promise<void> {
  if (lastEvent === null) return;
  const count = calls.reduce((sum, { events }) => sum + events.length, 0);
  await log.committed({ count, last: lastEvent, stateIds });
}

function* saveChange(engine: SqlEngine, lease: Lease, change: RunChange): Steps<boolean> {
  if (yield* hasChanged(updateOwned(engine, lease, change))) return true;
  yield* readEnded(engine, lease);
  return false;
}

/** The row of a run that could not be changed because it has ended. Fails with LeaseLost if it has not. */
function* readEnded({ db, statements }: SqlEngine, { runId, epoch, ownerInstanceId }: Lease): Steps<RunRow> {
  const [run] = yield* fetchRows(selectRun(db, statements, runId));
  if (run?.state === "exited") return run;
  const owner = run?.owner_instance_id ?? null;
  throw new LeaseLost(runId, epoch, owner === ownerInstanceId ? null : owner);
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

function insertNewRun(
  { db, dialect, statements }: SqlEngine,
  { run, leaseMs, gated }: NewRunCall,
): Compilable {
  const row = runTable.toColumns(newRunRecord(run, 0, gated));
  const values = { ...row, lease_ms: Math.ceil(leaseMs) };
  return statements.bind(shapeOf("insert a run", values), values, ({ lease_ms, ...places }) =>
    db
      .insertInto("runs")
      .values({ ...places, lease_expires_at: sql<number>`${dialect.now()} + ${lease_ms}` })
      .onConflict((conflict) => conflict.column("run_id").doNothing()),
  );
}

function renewLeases({ db, dialect, statements }: SqlEngine, owner: string, leaseMs: number): Compilable {
  const values = { owner, lease_ms: Math.ceil(leaseMs) };
  return statements.bind("renew leases", values, ({ owner: of, lease_ms }) =>
    db
      .updateTable("runs")
      .set({ lease_expires_at: sql<number>`${dialect.now()} + ${lease_ms}` })
      .where("owner_instance_id", "=", of)
      .where(notExited),
  );
}

/** Takes a lease from the owner and epoch that are given, and with it ends the run if `end` is given. */
function acquire(
  { db, dialect, statements }: SqlEngine,
  claim: LeaseRequest,
  end?: TerminalRunChange,
): Compilable {
  const { runId, from, ownerInstanceId, epoch, leaseMs, expiredForMs } = claim;
  if (epoch <= from.epoch) throw new Error(`epoch ${epoch} is not above ${from.epoch}`);
  const values = {
    ...(end === undefined ? { updated_at: Date.now(), at: 0, started: null } : changeValues(end)),
    of_run: runId,
    from_owner: from.ownerInstanceId,
    from_epoch: from.epoch,
    owner: ownerInstanceId,
    epoch,
    lease_ms: Math.ceil(leaseMs),
    expired_ms: Math.ceil(expiredForMs ?? 0),
  };
  return statements.bind(shapeOf(`acquire a lease ${expiredForMs === null}`, values), values, (given) => {
    const {
      of_run,
      from_owner,
      from_epoch,
      owner,
      epoch: next,
      lease_ms,
      expired_ms,
      at,
      started,
      ...set
    } = given;
    const swap = db
      .updateTable("runs")
      .set({
        ...set,
        ...(end === undefined ? {} : computedColumns(end.to, at, started)),
        owner_instance_id: owner,
        lease_epoch: next,
        lease_expires_at: sql<number>`${dialect.now()} + ${lease_ms}`,
      })
      .where("run_id", "=", of_run)
      .where("owner_instance_id", "=", from_owner)
      .where("lease_epoch", "=", from_epoch)
      .where(notExited);
    const expiredBefore = sql<number>`${dialect.now()} - ${expired_ms}`;
    return expiredForMs === null ? swap : swap.where("lease_expires_at", "<=", expiredBefore);
  });
}

function updateOwned({ db, statements }: SqlEngine, lease: Lease, change: RunChange): Compilable {
  const values = ownedValues(lease, change);
  return statements.bind(shapeOf(change.to, values), values, (given) => ownedUpdate(db, change, given));
}

function endOwned({ db, statements }: SqlEngine, lease: Lease, end: RunChange): Compilable<RunRow> {
  const values = ownedValues(lease, end);
  return statements.bind(shapeOf("end a run", values), values, (given) =>
    ownedUpdate(db, end, given).returning(runTable.columns),
  );
}

function ownedValues({ runId, ownerInstanceId, epoch }: Lease, change: RunChange) {
  return { ...changeValues(change), of_run: runId, of_owner: ownerInstanceId, of_epoch: epoch };
}

/** Checks owner and epoch, so that an instance whose lease was stolen changes nothing. */
function ownedUpdate(
  db: SqlEngine["db"],
  { to }: RunChange,
  { of_run, of_owner, of_epoch, at, started, ...places }: Placeholders<ReturnType<typeof ownedValues>>,
) {
  return db
    .updateTable("runs")
    .set({ ...places, ...computedColumns(to, at, started) })
    .where("run_id", "=", of_run)
    .where("owner_instance_id", "=", of_owner)
    .where("lease_epoch", "=", of_epoch)
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
