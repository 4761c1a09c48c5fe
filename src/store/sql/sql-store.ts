import { sql } from "kysely";
import type { Compilable, RawBuilder } from "kysely";
import { LeaseLost, RunExists } from "../../errors.js";
import type { CommandRecord, CommandResult, NewCommand } from "../command-record.js";
import { columnsOf } from "../run-change.js";
import type { HiddenEvent, NewRunEvent, RunEvent } from "../run-event.js";
import type { RunRecord } from "../run-record.js";
import type { SessionScope } from "../session-store.js";
import { toRunRow, toWholeRow } from "../run-row.js";
import type {
  EventFilter,
  Lease,
  LeaseClaim,
  NewRun,
  Here,
  RunChange,
  RunEnd,
  RunFilter,
  Store,
} from "../store.js";
import { appendEvents } from "./append-events.js";
import * as commands from "./commands.js";
import type { Engine } from "./engine.js";
import * as read from "./read.js";
import { SqlTaskStore } from "./sql-task-store.js";
import { countOf, rowsOf, type Steps } from "./steps.js";

/** A literal, not a parameter: only so can the index of live runs serve. */
const notExited = sql<boolean>`state <> 'exited'`;

/** Runs named in one statement: far below what any database takes. */
const NAMED_AT_ONCE = 100;

/** The store on any database that an engine drives. */
export class SqlStore extends SqlTaskStore implements Store {
  readonly shared: boolean;
  readonly #engine: Engine;
  readonly #eventsKept: number;

  constructor(engine: Engine, eventsKept: number) {
    super(engine, eventsKept);
    this.shared = engine.words.shared;
    this.#engine = engine;
    this.#eventsKept = eventsKept;
  }

  get eras(): number {
    return this.#engine.eras;
  }

  async insertRun(run: NewRun, leaseMs: number, events: readonly NewRunEvent[] = []): Promise<Lease> {
    const inserted = await this.#write(events, () =>
      this.#changed(
        this.#engine.db
          .insertInto("runs")
          .values(toRunRow(run, this.#expiry(leaseMs)))
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

  async claimLease(claim: LeaseClaim, events: readonly NewRunEvent[] = []): Promise<Lease | null> {
    const { runId, ownerInstanceId, epoch } = claim;
    const claimed = await this.#write(events, () => this.#changed(this.#swap(claim)));
    return claimed ? { runId, ownerInstanceId, epoch } : null;
  }

  async concludeRun(claim: LeaseClaim, end: RunEnd, events: readonly NewRunEvent[] = []): Promise<boolean> {
    const ended = await this.#writeTogether(events, () => this.#conclude(claim, end));
    if (ended) await this.#engine.flush();
    return ended;
  }

  async restoreRun(run: RunRecord, leaseMs: number, events: readonly NewRunEvent[] = []): Promise<boolean> {
    const row = toWholeRow(run, this.#expiry(leaseMs));
    const restored = await this.#write(events, () =>
      this.#changed(
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
      .set({ lease_expires_at: this.#expiry(leaseMs) })
      .where("owner_instance_id", "=", ownerInstanceId)
      .where(notExited);
    return this.#engine.perform(() => countOf(renew));
  }

  listUnattended(ownerInstanceId: string, here: Here): Promise<readonly RunRecord[]> {
    return read.listUnattended(this.#engine.db, this.#engine.words, ownerInstanceId, here);
  }

  heldRuns(ownerInstanceId: string): Promise<readonly string[]> {
    return read.heldRuns(this.#engine.db, ownerInstanceId);
  }

  getRun(runId: string): Promise<RunRecord | null> {
    return read.getRun(this.#engine.db, runId);
  }

  findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]> {
    return read.findRuns(this.#engine.db, prefix, limit);
  }

  listRuns(filter: RunFilter): Promise<readonly RunRecord[]> {
    return read.listRuns(this.#engine.db, this.#engine.words, filter);
  }

  async listEvents(filter: EventFilter): Promise<readonly RunEvent[]> {
    return read.listEvents(this.#engine.db, await this.#engine.settledEvents(), filter);
  }

  async listScopedEvents(
    scope: SessionScope,
    filter: EventFilter,
  ): Promise<readonly (RunEvent | HiddenEvent)[]> {
    const { db, words } = this.#engine;
    return read.listScopedEvents(db, words, await this.#engine.settledEvents(), scope, filter);
  }

  async appendEvents(events: readonly NewRunEvent[]): Promise<void> {
    await this.#write(events, always);
  }

  eventsReach(): Promise<number | null> {
    return this.#engine.settledEvents();
  }

  async hideRuns(runIds: readonly string[], at: number): Promise<number> {
    return this.#engine.transact(() => this.#hide(runIds, at));
  }

  async deleteRuns(runIds: readonly string[]): Promise<number> {
    return this.#engine.transact(() => this.#delete(runIds));
  }

  countEnded(filter: Pick<RunFilter, "ofState" | "notFrom"> = {}): Promise<number> {
    return read.countEnded(this.#engine.db, filter);
  }

  async insertCommand(command: NewCommand, events: readonly NewRunEvent[]): Promise<boolean> {
    const { db, words } = this.#engine;
    const insert = commands.insertCommand(db, words, command);
    const inserted = await this.#write(events, () => this.#changed(insert));
    if (inserted) this.#engine.call(command.target);
    return inserted;
  }

  getCommand(id: string): Promise<CommandRecord | null> {
    return commands.getCommand(this.#engine.db, id);
  }

  listCommands(targets: readonly string[]): Promise<readonly CommandRecord[]> {
    return commands.listCommands(this.#engine.db, targets);
  }

  commandsOf(runId: string): Promise<readonly CommandRecord[]> {
    return commands.commandsOf(this.#engine.db, runId);
  }

  async acceptCommand(id: string): Promise<void> {
    const { db, words } = this.#engine;
    await this.#engine.perform(() => countOf(commands.acceptCommand(db, words, id)));
  }

  async finishCommand(id: string, result: CommandResult, events: readonly NewRunEvent[]): Promise<boolean> {
    const { db, words } = this.#engine;
    return this.#write(events, () => this.#changed(commands.finishCommand(db, words, id, result)));
  }

  async forgetCommands(olderThanMs: number): Promise<number> {
    const { db, words } = this.#engine;
    return this.#engine.perform(() => countOf(commands.forgetCommands(db, words, olderThanMs)));
  }

  now(): Promise<number> {
    return this.#engine.now();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#engine[Symbol.asyncDispose]();
  }

  *#save(lease: Lease, change: RunChange): Steps<boolean> {
    if (yield* this.#changed(this.#update(lease, change))) return true;
    const [run] = yield* rowsOf(
      this.#engine.db
        .selectFrom("runs")
        .select(["state", "owner_instance_id"])
        .where("run_id", "=", lease.runId),
    );
    if (run?.state === "exited") return false;
    const owner = run?.owner_instance_id ?? null;
    throw new LeaseLost(lease.runId, lease.epoch, owner === lease.ownerInstanceId ? null : owner);
  }

  *#conclude(claim: LeaseClaim, end: RunEnd): Steps<boolean> {
    return (yield* this.#changed(this.#swap(claim))) && (yield* this.#changed(this.#update(claim, end)));
  }

  *#hide(runIds: readonly string[], at: number): Steps<number> {
    const hide = this.#engine.db.updateTable("runs").set({ hidden_at: at }).where("hidden_at", "is", null);
    let hidden = 0;
    for (const some of portionsOf(runIds)) hidden += yield* countOf(hide.where("run_id", "in", some));
    return hidden;
  }

  *#delete(runIds: readonly string[]): Steps<number> {
    const { db } = this.#engine;
    let deleted = 0;
    for (const some of portionsOf(runIds)) {
      const gone = yield* rowsOf(
        db.deleteFrom("runs").where("run_id", "in", some).where("state", "=", "exited").returning("run_id"),
      );
      if (gone.length === 0) continue;
      const ids = gone.map(({ run_id }) => run_id);
      yield* countOf(db.deleteFrom("run_events").where("run_id", "in", ids));
      deleted += gone.length;
    }
    return deleted;
  }

  #swap({ runId, from, ownerInstanceId, epoch, leaseMs, expiredForMs }: LeaseClaim): Compilable {
    if (epoch <= from.epoch) throw new Error(`epoch ${epoch} is not above ${from.epoch}`);
    const swap = this.#engine.db
      .updateTable("runs")
      .set({
        owner_instance_id: ownerInstanceId,
        lease_epoch: epoch,
        lease_expires_at: this.#expiry(leaseMs),
        updated_at: Date.now(),
      })
      .where("run_id", "=", runId)
      .where("owner_instance_id", "=", from.ownerInstanceId)
      .where("lease_epoch", "=", from.epoch)
      .where(notExited);
    return expiredForMs === null
      ? swap
      : swap.where("lease_expires_at", "<=", this.#expiry(-Math.ceil(expiredForMs)));
  }

  /** Guarded by the whole lease: whoever holds less than the newest epoch changes nothing. */
  #update(lease: Lease, change: RunChange): Compilable {
    return this.#engine.db
      .updateTable("runs")
      .set(columnsOf(change, Date.now()))
      .where("run_id", "=", lease.runId)
      .where("owner_instance_id", "=", lease.ownerInstanceId)
      .where("lease_epoch", "=", lease.epoch)
      .where(notExited);
  }

  *#changed(statement: Compilable): Steps<boolean> {
    return (yield* countOf(statement)) > 0;
  }

  #write(events: readonly NewRunEvent[], step: () => Steps<boolean>): Promise<boolean> {
    // One statement is a transaction by itself.
    return events.length === 0 ? this.#engine.perform(step) : this.#writeTogether(events, step);
  }

  /** A row's step and its events: both or neither. */
  async #writeTogether(events: readonly NewRunEvent[], step: () => Steps<boolean>): Promise<boolean> {
    const { db } = this.#engine;
    const retention = { kept: this.#eventsKept, shared: this.shared };
    const written = await this.#engine.transact(function* () {
      const done = yield* step();
      if (done) yield* appendEvents(db, events, retention);
      return done;
    });
    if (written && events.length > 0) this.#engine.announce();
    return written;
  }

  #expiry(leaseMs: number): RawBuilder<number> {
    return sql<number>`${this.#engine.words.now()} + ${Math.ceil(leaseMs)}`;
  }
}

function* portionsOf(runIds: readonly string[]): Generator<readonly string[], void, undefined> {
  for (let at = 0; at < runIds.length; at += NAMED_AT_ONCE) yield runIds.slice(at, at + NAMED_AT_ONCE);
}

// oxlint-disable-next-line require-yield -- it takes no step
function* always(): Steps<boolean> {
  return true;
}
