import { LeaseLost, RunNotFound } from "../../errors.js";
import { applyRunChange } from "../../store/runs/apply-change.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import type { Lease, RunChange, RunStore } from "../../store/runs/store.js";
import { deferred, type Deferred } from "../../async/deferred.js";
import type { StoreCircuitBreaker } from "./store-circuit-breaker.js";

interface QueuedWrite {
  readonly change: RunChange | null;
  readonly events: readonly NewRunEvent[];
  /** Set for the terminal entry: it is settled with the committed record. */
  readonly committed: Deferred<RunRecord> | null;
}

export interface WriteQueueObserver {
  /** A write was refused and will be repeated. */
  onRetry(error: unknown): void;
  /**
   * The store does not know what it was told. True: it had gone back in time, and has been told again; the write is
   * repeated. Rejects when that cannot be found out now.
   */
  onRolledBack(): Promise<boolean>;
  /** Somebody else owns the run, or its record is gone: nothing more is written. */
  onReplaced(error: LeaseLost | RunNotFound): void;
}

/**
 * One run's writes to the store, in order. A write that fails is repeated until it succeeds: stopping a run never waits
 * for the store, and its end is never forgotten because the disk was full for a while.
 */
export class RunWriteQueue {
  readonly #store: RunStore;
  readonly #breaker: StoreCircuitBreaker;
  readonly #observer: WriteQueueObserver;
  readonly #firstFailure = deferred<void>();
  #lease: Lease;
  #record: RunRecord;
  #queue: QueuedWrite[] = [];
  #draining = false;
  #closed: Error | null = null;

  /** `record`: as the store has it when the journal begins. */
  constructor(
    store: RunStore,
    storeBreaker: StoreCircuitBreaker,
    lease: Lease,
    record: RunRecord,
    observer: WriteQueueObserver,
  ) {
    this.#store = store;
    this.#breaker = storeBreaker;
    this.#lease = lease;
    this.#record = record;
    this.#observer = observer;
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
    return this.#queue.length;
  }

  /** A change that was committed without this journal. */
  committed(change: RunChange): void {
    this.#record = applyRunChange(this.#record, change);
  }

  /** Resolves when a write has failed for the first time. */
  get firstFailure(): Promise<void> {
    return this.#firstFailure.promise;
  }

  /** Go on under a newer epoch of the same run. */
  setLease(lease: Lease): void {
    this.#lease = lease;
  }

  enqueue(change: RunChange | null, events: readonly NewRunEvent[] = []): void {
    this.#append({ change, events, committed: null });
  }

  /** Resolves with the record once the end is committed; rejects only when the journal is closed before that. */
  enqueueTerminal(change: RunChange, events: readonly NewRunEvent[]): Promise<RunRecord> {
    const committed = deferred<RunRecord>();
    this.#append({ change, events, committed });
    return committed.promise;
  }

  /** Stop writing. What is still unwritten stays so. */
  close(error: Error): void {
    if (this.#closed !== null) return;
    this.#closed = error;
    for (const { committed } of this.#queue.splice(0)) committed?.reject(error);
  }

  #append(entry: QueuedWrite): void {
    if (this.#closed !== null) return entry.committed?.reject(this.#closed);
    if (entry.change !== null) this.#record = applyRunChange(this.#record, entry.change);
    // While the store refuses everything, yesterday's signs of life need not pile up behind today's. The head may be in flight.
    if (
      entry.change?.to === "output" &&
      this.#queue.length > 1 &&
      this.#queue.at(-1)?.change?.to === "output"
    )
      this.#queue.pop();
    this.#queue.push(entry);
    if (!this.#draining) void this.#drain();
  }

  /** Never rejects. The first write happens within the call, without a turn of the loop. */
  async #drain(): Promise<void> {
    this.#draining = true;
    for (let entry = this.#queue[0]; entry !== undefined; entry = this.#queue[0]) {
      for (let wait = this.#breaker.admit(); wait !== null; wait = this.#breaker.admit()) {
        // Others were refused: that is trouble enough, without having been refused oneself.
        this.#firstFailure.resolve();
        await wait;
        // Asked first: who enters and then says nothing leaves the gate shut for everybody.
        if (this.#closed !== null) break;
      }
      if (this.#closed !== null) break;
      try {
        const record = await this.#save(entry);
        this.#breaker.recordSuccess();
        if (this.#queue[0] === entry) this.#queue.shift();
        if (record !== null) entry.committed?.resolve(record);
      } catch (error) {
        await this.#onRefused(error);
      }
    }
    this.#draining = false;
  }

  async #onRefused(error: unknown): Promise<void> {
    if (!(error instanceof LeaseLost || error instanceof RunNotFound)) return this.#onFailed(error);
    let again: boolean;
    try {
      again = await this.#observer.onRolledBack();
    } catch (failure) {
      return this.#onFailed(failure);
    }
    // An answer, if not the one hoped for; of an epoch that has been renewed meanwhile it says nothing.
    this.#breaker.recordSuccess();
    if (again || this.#closed !== null) return;
    if (error instanceof LeaseLost && error.epoch !== this.#lease.epoch) return;
    this.close(error);
    this.#observer.onReplaced(error);
  }

  #onFailed(error: unknown): void {
    this.#breaker.recordFailure(error);
    if (this.#closed !== null) return;
    this.#firstFailure.resolve();
    this.#observer.onRetry(error);
  }

  async #save({ change, events, committed }: QueuedWrite): Promise<RunRecord | null> {
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
