import { Kysely, sql } from "kysely";
import type { Compilable } from "kysely";
import { LeaseLost, RunExists } from "../../errors.js";
import { columnsOf } from "../run-change.js";
import type { NewRunEvent, RunEvent } from "../run-event.js";
import type { RunRecord } from "../run-record.js";
import { toRunRow } from "../run-row.js";
import type { Schema } from "../schema.js";
import type {
  EventFilter,
  Lease,
  LeaseClaim,
  NewRun,
  RunChange,
  RunEnd,
  RunFilter,
  Store,
} from "../store.js";
import { appendEvents } from "./append-events.js";
import { hostMonotonicMs } from "./clock.js";
import type { SqliteConnection } from "./connection.js";
import { SqliteDialect } from "./dialect.js";
import * as read from "./read.js";
import { SqliteSessionStore } from "./sqlite-session-store.js";
import type { WalSync } from "./wal-sync.js";

/** A literal, not a parameter: only so can the index of live runs serve. */
const notExited = sql<boolean>`state <> 'exited'`;

export class SqliteStore extends SqliteSessionStore implements Store {
  readonly #connection: SqliteConnection;
  readonly #db: Kysely<Schema>;
  readonly #walSync: WalSync;
  readonly #eventsKept: number;

  constructor(connection: SqliteConnection, walSync: WalSync, eventsKept: number) {
    const db = new Kysely<Schema>({ dialect: new SqliteDialect(connection) });
    super(connection, db, walSync);
    this.#connection = connection;
    this.#walSync = walSync;
    this.#db = db;
    this.#eventsKept = eventsKept;
  }

  async insertRun(run: NewRun, leaseMs: number, events: readonly NewRunEvent[] = []): Promise<Lease> {
    const insert = this.#db
      .insertInto("runs")
      .values(toRunRow(run, expiry(leaseMs)))
      .onConflict((conflict) => conflict.column("run_id").doNothing());
    this.#write(events, () => {
      if (!this.#changed(insert)) throw new RunExists(run.runId);
      return true;
    });
    return { runId: run.runId, ownerInstanceId: run.ownerInstanceId, epoch: run.leaseEpoch };
  }

  async saveRun(lease: Lease, change: RunChange, events: readonly NewRunEvent[] = []): Promise<boolean> {
    const save = (): boolean => {
      if (this.#changed(this.#update(lease, change))) return true;
      const { rows } = this.#connection.execute(
        this.#db
          .selectFrom("runs")
          .select(["state", "owner_instance_id"])
          .where("run_id", "=", lease.runId)
          .compile(),
      );
      if (rows[0]?.state === "exited") return false;
      const owner = rows[0]?.owner_instance_id ?? null;
      throw new LeaseLost(lease.runId, lease.epoch, owner === lease.ownerInstanceId ? null : owner);
    };
    const written = this.#write(events, save);
    // How a run ended is told to others and must survive power loss. The rows before it need not:
    // power loss also ends the processes they are about. Also when it was written before: that sync may have failed.
    if (change.to === "exited") await this.#walSync.flush();
    return written;
  }

  async claimLease(claim: LeaseClaim, events: readonly NewRunEvent[] = []): Promise<Lease | null> {
    const { runId, ownerInstanceId, epoch } = claim;
    const swap = this.#swap(claim);
    return this.#write(events, () => this.#changed(swap)) ? { runId, ownerInstanceId, epoch } : null;
  }

  async concludeRun(claim: LeaseClaim, end: RunEnd, events: readonly NewRunEvent[] = []): Promise<boolean> {
    const swap = this.#swap(claim);
    const ended = this.#connection.transaction(() =>
      this.#together(events, () => this.#changed(swap) && this.#changed(this.#update(claim, end))),
    );
    if (ended) await this.#walSync.flush();
    return ended;
  }

  #swap({ runId, from, ownerInstanceId, epoch, leaseMs, expiredForMs }: LeaseClaim): Compilable {
    if (epoch <= from.epoch) throw new Error(`epoch ${epoch} is not above ${from.epoch}`);
    let swap = this.#db
      .updateTable("runs")
      .set({
        owner_instance_id: ownerInstanceId,
        lease_epoch: epoch,
        lease_expires_at: expiry(leaseMs),
        updated_at: Date.now(),
      })
      .where("run_id", "=", runId)
      .where("owner_instance_id", "=", from.ownerInstanceId)
      .where("lease_epoch", "=", from.epoch)
      .where(notExited);
    if (expiredForMs !== null)
      swap = swap.where("lease_expires_at", "<=", hostMonotonicMs() - Math.ceil(expiredForMs));
    return swap;
  }

  async renewLeases(ownerInstanceId: string, leaseMs: number): Promise<number> {
    const { numAffectedRows = 0n } = this.#connection.execute(
      this.#db
        .updateTable("runs")
        .set({ lease_expires_at: expiry(leaseMs) })
        .where("owner_instance_id", "=", ownerInstanceId)
        .where(notExited)
        .compile(),
    );
    return Number(numAffectedRows);
  }

  listUnattended(ownerInstanceId: string, bootId: string): Promise<readonly RunRecord[]> {
    return read.listUnattended(this.#db, ownerInstanceId, bootId, hostMonotonicMs());
  }

  heldRuns(ownerInstanceId: string): Promise<readonly string[]> {
    return read.heldRuns(this.#db, ownerInstanceId);
  }

  getRun(runId: string): Promise<RunRecord | null> {
    return read.getRun(this.#db, runId);
  }

  findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]> {
    return read.findRuns(this.#db, prefix, limit);
  }

  listRuns(filter: RunFilter): Promise<readonly RunRecord[]> {
    return read.listRuns(this.#db, filter);
  }

  listEvents(filter: EventFilter): Promise<readonly RunEvent[]> {
    return read.listEvents(this.#db, filter);
  }

  async appendEvents(events: readonly NewRunEvent[]): Promise<void> {
    this.#write(events, () => true);
  }

  async hideRuns(runIds: readonly string[], at: number): Promise<number> {
    const hide = this.#db.updateTable("runs").set({ hidden_at: at }).where("hidden_at", "is", null);
    return this.#connection.transaction(
      () => runIds.filter((runId) => this.#changed(hide.where("run_id", "=", runId))).length,
    );
  }

  async deleteRuns(runIds: readonly string[]): Promise<number> {
    return this.#connection.transaction(() => runIds.filter((runId) => this.#deleteRun(runId)).length);
  }

  countEnded(notFrom: readonly string[] = []): Promise<number> {
    return read.countEnded(this.#db, notFrom);
  }

  async now(): Promise<number> {
    return hostMonotonicMs();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#db.destroy();
    this.#walSync.close();
    this.#connection.close();
  }

  #deleteRun(runId: string): boolean {
    const run = this.#db.deleteFrom("runs").where("run_id", "=", runId).where("state", "=", "exited");
    if (!this.#changed(run)) return false;
    this.#connection.execute(this.#db.deleteFrom("run_events").where("run_id", "=", runId).compile());
    return true;
  }

  /** Guarded by the whole lease: whoever holds less than the newest epoch changes nothing. */
  #update(lease: Lease, change: RunChange): Compilable {
    return this.#db
      .updateTable("runs")
      .set(columnsOf(change, Date.now()))
      .where("run_id", "=", lease.runId)
      .where("owner_instance_id", "=", lease.ownerInstanceId)
      .where("lease_epoch", "=", lease.epoch)
      .where(notExited);
  }

  #changed(statement: Compilable): boolean {
    return this.#connection.execute(statement.compile()).numAffectedRows !== 0n;
  }

  #write(events: readonly NewRunEvent[], step: () => boolean): boolean {
    // One statement is a transaction by itself.
    if (events.length === 0) return step();
    return this.#connection.transaction(() => this.#together(events, step));
  }

  /** A row's step and its events: both or neither. */
  #together(events: readonly NewRunEvent[], step: () => boolean): boolean {
    const written = step();
    if (written) appendEvents(this.#connection, this.#db, events, this.#eventsKept);
    return written;
  }
}

function expiry(leaseMs: number): number {
  return hostMonotonicMs() + Math.ceil(leaseMs);
}
