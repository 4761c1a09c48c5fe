import { LeaseLost, RunNotFound } from "../errors.js";
import { applyChange } from "../store/apply-change.js";
import type { NewRunEvent } from "../store/run-event.js";
import type { RunRecord } from "../store/run-record.js";
import type { Lease, RunChange, RunStore } from "../store/store.js";
import { deferred, type Deferred } from "./deferred.js";
import type { StoreGate } from "./store-gate.js";

interface Entry {
  readonly change: RunChange | null;
  readonly events: readonly NewRunEvent[];
  /** Set for the terminal entry: it is settled with the committed record. */
  readonly committed: Deferred<RunRecord> | null;
}

export interface JournalWatcher {
  /** A write was refused and will be repeated. */
  failing(error: unknown): void;
  /**
   * The store does not know what it was told. True: it had gone back in time, and has been told again; the write is
   * repeated. Rejects when that cannot be found out now.
   */
  forgotten(): Promise<boolean>;
  /** Somebody else owns the run, or its record is gone: nothing more is written. */
  ousted(error: LeaseLost | RunNotFound): void;
}

/**
 * One run's writes to the store, in order. A write that fails is repeated until it succeeds: stopping a run never waits
 * for the store, and its end is never forgotten because the disk was full for a while.
 */
export class Journal {
  readonly #store: RunStore;
  readonly #gate: StoreGate;
  readonly #watcher: JournalWatcher;
  readonly #trouble = deferred<void>();
  #lease: Lease;
  #record: RunRecord;
  #entries: Entry[] = [];
  #writing = false;
  #closed: Error | null = null;

  /** `record`: as the store has it when the journal begins. */
  constructor(store: RunStore, gate: StoreGate, lease: Lease, record: RunRecord, watcher: JournalWatcher) {
    this.#store = store;
    this.#gate = gate;
    this.#lease = lease;
    this.#record = record;
    this.#watcher = watcher;
  }

  get lease(): Lease {
    return this.#lease;
  }

  /** The run's record as it will be when everything noted so far is written. */
  get record(): RunRecord {
    const { ownerInstanceId, epoch: leaseEpoch } = this.#lease;
    return { ...this.#record, ownerInstanceId, leaseEpoch };
  }

  /** How many writes are not committed. */
  get pending(): number {
    return this.#entries.length;
  }

  /** A change that was committed without this journal. */
  committed(change: RunChange): void {
    this.#record = applyChange(this.#record, change);
  }

  /** Resolves when a write has failed for the first time. */
  get trouble(): Promise<void> {
    return this.#trouble.promise;
  }

  /** Go on under a newer epoch of the same run. */
  renew(lease: Lease): void {
    this.#lease = lease;
  }

  note(change: RunChange | null, events: readonly NewRunEvent[] = []): void {
    this.#append({ change, events, committed: null });
  }

  /** Resolves with the record once the end is committed; rejects only when the journal is closed before that. */
  finish(change: RunChange, events: readonly NewRunEvent[]): Promise<RunRecord> {
    const committed = deferred<RunRecord>();
    this.#append({ change, events, committed });
    return committed.promise;
  }

  /** Stop writing. What is still unwritten stays so. */
  close(error: Error): void {
    if (this.#closed !== null) return;
    this.#closed = error;
    for (const { committed } of this.#entries.splice(0)) committed?.reject(error);
  }

  #append(entry: Entry): void {
    if (this.#closed !== null) return entry.committed?.reject(this.#closed);
    if (entry.change !== null) this.#record = applyChange(this.#record, entry.change);
    // While the store refuses everything, yesterday's signs of life need not pile up behind today's. The head may be in flight.
    if (
      entry.change?.to === "output" &&
      this.#entries.length > 1 &&
      this.#entries.at(-1)?.change?.to === "output"
    )
      this.#entries.pop();
    this.#entries.push(entry);
    if (!this.#writing) void this.#write();
  }

  /** Never rejects. The first write happens within the call, without a turn of the loop. */
  async #write(): Promise<void> {
    this.#writing = true;
    for (let entry = this.#entries[0]; entry !== undefined; entry = this.#entries[0]) {
      for (let wait = this.#gate.enter(); wait !== null; wait = this.#gate.enter()) {
        // Others were refused: that is trouble enough, without having been refused oneself.
        this.#trouble.resolve();
        await wait;
        // Asked first: who enters and then says nothing leaves the gate shut for everybody.
        if (this.#closed !== null) break;
      }
      if (this.#closed !== null) break;
      try {
        const record = await this.#save(entry);
        this.#gate.accepted();
        if (this.#entries[0] === entry) this.#entries.shift();
        if (record !== null) entry.committed?.resolve(record);
      } catch (error) {
        await this.#refused(error);
      }
    }
    this.#writing = false;
  }

  async #refused(error: unknown): Promise<void> {
    if (!(error instanceof LeaseLost || error instanceof RunNotFound)) return this.#failed(error);
    let again: boolean;
    try {
      again = await this.#watcher.forgotten();
    } catch (failure) {
      return this.#failed(failure);
    }
    // An answer, if not the one hoped for; of an epoch that has been renewed meanwhile it says nothing.
    this.#gate.accepted();
    if (again || this.#closed !== null) return;
    if (error instanceof LeaseLost && error.epoch !== this.#lease.epoch) return;
    this.close(error);
    this.#watcher.ousted(error);
  }

  #failed(error: unknown): void {
    this.#gate.refused(error);
    if (this.#closed !== null) return;
    this.#trouble.resolve();
    this.#watcher.failing(error);
  }

  async #save({ change, events, committed }: Entry): Promise<RunRecord | null> {
    const { runId } = this.#lease;
    if (change !== null) await this.#store.saveRun(this.#lease, change, events);
    else await this.#store.appendEvents(events);
    if (committed === null) return null;
    // Read back rather than assembled: the record is what is committed, also when somebody else ended it first.
    const record = await this.#store.getRun(runId);
    if (record === null) throw new RunNotFound(runId);
    return record;
  }
}
