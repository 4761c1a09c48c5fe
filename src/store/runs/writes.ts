import { type Compilable, type RawBuilder, sql } from "kysely";
import { LeaseLost, RunExists } from "../../errors.js";
import type { NewRemoteStop, RemoteStop, RemoteStopResult } from "../../model/gateway.js";
import type { HiddenEvent, NewRunEvent, RunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import * as commands from "../remote-stops.js";
import type { SessionScope } from "../../model/session.js";
import { countChanged, fetchRows, type SqlEngine, type Steps } from "../sql/engine.js";
import type { Store } from "../store.js";
import type {
  EventFilter,
  Lease,
  LeaseRequest,
  LocalScope,
  NewRun,
  RunChange,
  RunFilter,
  TerminalRunChange,
} from "./store.js";
import { SqlTaskStore } from "../tasks/writes.js";
import { changeColumns } from "./change-columns.js";
import { appendRunEvents } from "./events.js";
import * as read from "./queries.js";
import { newRunColumns, runColumns } from "./rows.js";

/** A literal, not a parameter: only so can the index of live runs serve. */
const notExited = sql<boolean>`state <> 'exited'`;

/** Runs named in one statement: far below what any database takes. */
const IDS_PER_STATEMENT = 100;

/** The store on any database that an engine drives. */
export class SqlStore extends SqlTaskStore implements Store {
  readonly shared: boolean;
  readonly #engine: SqlEngine;
  readonly #eventsKept: number;

  constructor(engine: SqlEngine, eventsKept: number) {
    super(engine, eventsKept);
    this.shared = engine.dialect.shared;
    this.#engine = engine;
    this.#eventsKept = eventsKept;
  }

  get generation(): number {
    return this.#engine.generation;
  }

  async insertRun(run: NewRun, leaseMs: number, events: readonly NewRunEvent[] = []): Promise<Lease> {
    const inserted = await this.#write(events, () =>
      this.#hasChanged(
        this.#engine.db
          .insertInto("runs")
          .values(newRunColumns(run, this.#leaseExpiry(leaseMs)))
          .onConflict((conflict) => conflict.column("run_id").doNothing()),
      ),
    );
    if (!inserted) throw new RunExists(run.runId);
    return { runId: run.runId, ownerInstanceId: run.ownerInstanceId, epoch: run.leaseEpoch };
  }

  async saveRun(lease: Lease, change: RunChange, events: readonly NewRunEvent[] = []): Promise<boolean> {
    const written = await this.#write(events, () => this.#save(lease, change));
    // How a run ended is told to others and must survive power loss. The rows before it need not:
    // power loss also ends the processes they are about. Also when it was written before: that sync may have failed.
    if (change.to === "exited") await this.#engine.flush();
    return written;
  }

  async acquireLease(claim: LeaseRequest, events: readonly NewRunEvent[] = []): Promise<Lease | null> {
    const { runId, ownerInstanceId, epoch } = claim;
    const claimed = await this.#write(events, () => this.#hasChanged(this.#compareAndSwapLease(claim)));
    return claimed ? { runId, ownerInstanceId, epoch } : null;
  }

  async acquireAndFinalizeRun(
    claim: LeaseRequest,
    end: TerminalRunChange,
    events: readonly NewRunEvent[] = [],
  ): Promise<boolean> {
    const ended = await this.#writeWithEvents(events, () => this.#acquireAndFinalize(claim, end));
    if (ended) await this.#engine.flush();
    return ended;
  }

  async restoreRun(run: RunRecord, leaseMs: number, events: readonly NewRunEvent[] = []): Promise<boolean> {
    const row = runColumns(run, this.#leaseExpiry(leaseMs));
    const restored = await this.#write(events, () =>
      this.#hasChanged(
        this.#engine.db
          .insertInto("runs")
          .values(row)
          .onConflict((conflict) =>
            conflict
              .column("run_id")
              .doUpdateSet(row)
              .where("runs.state", "<>", "exited")
              .where("runs.lease_epoch", "<=", run.leaseEpoch),
          ),
      ),
    );
    if (restored && run.state === "exited") await this.#engine.flush();
    return restored;
  }

  async renewLeases(ownerInstanceId: string, leaseMs: number): Promise<number> {
    const renew = this.#engine.db
      .updateTable("runs")
      .set({ lease_expires_at: this.#leaseExpiry(leaseMs) })
      .where("owner_instance_id", "=", ownerInstanceId)
      .where(notExited);
    return this.#engine.perform(() => countChanged(renew));
  }

  listUnattendedRuns(ownerInstanceId: string, here: LocalScope): Promise<readonly RunRecord[]> {
    return read.listUnattendedRuns(this.#engine.db, this.#engine.dialect, ownerInstanceId, here);
  }

  listOwnedRunIds(ownerInstanceId: string): Promise<readonly string[]> {
    return read.listOwnedRunIds(this.#engine.db, ownerInstanceId);
  }

  getRun(runId: string): Promise<RunRecord | null> {
    return read.getRun(this.#engine.db, runId);
  }

  findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]> {
    return read.findRuns(this.#engine.db, prefix, limit);
  }

  listRuns(filter: RunFilter): Promise<readonly RunRecord[]> {
    return read.listRuns(this.#engine.db, this.#engine.dialect, filter);
  }

  async listEvents(filter: EventFilter): Promise<readonly RunEvent[]> {
    return read.listEvents(this.#engine.db, await this.#engine.lastSettledEvent(), filter);
  }

  async listScopedEvents(
    scope: SessionScope,
    filter: EventFilter,
  ): Promise<readonly (RunEvent | HiddenEvent)[]> {
    const { db, dialect } = this.#engine;
    return read.listScopedEvents(db, dialect, await this.#engine.lastSettledEvent(), scope, filter);
  }

  async appendEvents(events: readonly NewRunEvent[]): Promise<void> {
    await this.#write(events, alwaysTrue);
  }

  eventsReach(): Promise<number | null> {
    return this.#engine.lastSettledEvent();
  }

  async hideRuns(runIds: readonly string[], at: number): Promise<number> {
    return this.#engine.transact(() => this.#hide(runIds, at));
  }

  async deleteRuns(runIds: readonly string[]): Promise<number> {
    return this.#engine.transact(() => this.#delete(runIds));
  }

  countEndedRuns(filter: Pick<RunFilter, "ofState" | "notFrom"> = {}): Promise<number> {
    return read.countEndedRuns(this.#engine.db, filter);
  }

  async insertRemoteStop(command: NewRemoteStop, events: readonly NewRunEvent[]): Promise<boolean> {
    const { db, dialect } = this.#engine;
    const insert = commands.insertRemoteStop(db, dialect, command);
    const inserted = await this.#write(events, () => this.#hasChanged(insert));
    if (inserted) this.#engine.notifyTarget(command.target);
    return inserted;
  }

  getRemoteStop(id: string): Promise<RemoteStop | null> {
    return commands.getRemoteStop(this.#engine.db, id);
  }

  listRemoteStops(targets: readonly string[]): Promise<readonly RemoteStop[]> {
    return commands.listRemoteStops(this.#engine.db, targets);
  }

  listRemoteStopsOfRun(runId: string): Promise<readonly RemoteStop[]> {
    return commands.listRemoteStopsOfRun(this.#engine.db, runId);
  }

  async acceptRemoteStop(id: string): Promise<void> {
    const { db, dialect } = this.#engine;
    await this.#engine.perform(() => countChanged(commands.acceptRemoteStop(db, dialect, id)));
  }

  async finishRemoteStop(
    id: string,
    result: RemoteStopResult,
    events: readonly NewRunEvent[],
  ): Promise<boolean> {
    const { db, dialect } = this.#engine;
    return this.#write(events, () => this.#hasChanged(commands.finishRemoteStop(db, dialect, id, result)));
  }

  async deleteRemoteStops(olderThanMs: number): Promise<number> {
    const { db, dialect } = this.#engine;
    return this.#engine.perform(() => countChanged(commands.deleteRemoteStops(db, dialect, olderThanMs)));
  }

  now(): Promise<number> {
    return this.#engine.now();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#engine[Symbol.asyncDispose]();
  }

  *#save(lease: Lease, change: RunChange): Steps<boolean> {
    if (yield* this.#hasChanged(this.#update(lease, change))) return true;
    const [run] = yield* fetchRows(
      this.#engine.db
        .selectFrom("runs")
        .select(["state", "owner_instance_id"])
        .where("run_id", "=", lease.runId),
    );
    if (run?.state === "exited") return false;
    const owner = run?.owner_instance_id ?? null;
    throw new LeaseLost(lease.runId, lease.epoch, owner === lease.ownerInstanceId ? null : owner);
  }

  *#acquireAndFinalize(claim: LeaseRequest, end: TerminalRunChange): Steps<boolean> {
    return (
      (yield* this.#hasChanged(this.#compareAndSwapLease(claim))) &&
      (yield* this.#hasChanged(this.#update(claim, end)))
    );
  }

  *#hide(runIds: readonly string[], at: number): Steps<number> {
    const hide = this.#engine.db.updateTable("runs").set({ hidden_at: at }).where("hidden_at", "is", null);
    let hidden = 0;
    for (const some of chunksOf(runIds)) hidden += yield* countChanged(hide.where("run_id", "in", some));
    return hidden;
  }

  *#delete(runIds: readonly string[]): Steps<number> {
    const { db } = this.#engine;
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

  #compareAndSwapLease({
    runId,
    from,
    ownerInstanceId,
    epoch,
    leaseMs,
    expiredForMs,
  }: LeaseRequest): Compilable {
    if (epoch <= from.epoch) throw new Error(`epoch ${epoch} is not above ${from.epoch}`);
    const swap = this.#engine.db
      .updateTable("runs")
      .set({
        owner_instance_id: ownerInstanceId,
        lease_epoch: epoch,
        lease_expires_at: this.#leaseExpiry(leaseMs),
        updated_at: Date.now(),
      })
      .where("run_id", "=", runId)
      .where("owner_instance_id", "=", from.ownerInstanceId)
      .where("lease_epoch", "=", from.epoch)
      .where(notExited);
    return expiredForMs === null
      ? swap
      : swap.where("lease_expires_at", "<=", this.#leaseExpiry(-Math.ceil(expiredForMs)));
  }

  /** Guarded by the whole lease: whoever holds less than the newest epoch changes nothing. */
  #update(lease: Lease, change: RunChange): Compilable {
    return this.#engine.db
      .updateTable("runs")
      .set(changeColumns(change, Date.now()))
      .where("run_id", "=", lease.runId)
      .where("owner_instance_id", "=", lease.ownerInstanceId)
      .where("lease_epoch", "=", lease.epoch)
      .where(notExited);
  }

  *#hasChanged(statement: Compilable): Steps<boolean> {
    return (yield* countChanged(statement)) > 0;
  }

  #write(events: readonly NewRunEvent[], step: () => Steps<boolean>): Promise<boolean> {
    // One statement is a transaction by itself.
    return events.length === 0 ? this.#engine.perform(step) : this.#writeWithEvents(events, step);
  }

  /** A row's step and its events: both or neither. */
  async #writeWithEvents(events: readonly NewRunEvent[], step: () => Steps<boolean>): Promise<boolean> {
    const { db } = this.#engine;
    const retention = { kept: this.#eventsKept, shared: this.shared };
    const written = await this.#engine.transact(function* () {
      const done = yield* step();
      if (done) yield* appendRunEvents(db, events, retention);
      return done;
    });
    if (written && events.length > 0) this.#engine.notifyEvents();
    return written;
  }

  #leaseExpiry(leaseMs: number): RawBuilder<number> {
    return sql<number>`${this.#engine.dialect.now()} + ${Math.ceil(leaseMs)}`;
  }
}

function* chunksOf(runIds: readonly string[]): Generator<readonly string[], void, undefined> {
  for (let at = 0; at < runIds.length; at += IDS_PER_STATEMENT)
    yield runIds.slice(at, at + IDS_PER_STATEMENT);
}

// oxlint-disable-next-line require-yield -- it takes no step
function* alwaysTrue(): Steps<boolean> {
  return true;
}
