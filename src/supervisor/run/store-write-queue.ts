import type { Clock, Timer } from "../../async/clock.js";
import { deferred, type Deferred } from "../../async/deferred.js";
import { defaults } from "../../defaults.js";
import { LeaseLost, RunNotFound } from "../../errors.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import { applyRunChange } from "../../store/runs/apply-change.js";
import type { Lease, RunChange, RunStore } from "../../store/runs/contract.js";

/**
 * Circuit breaker for the store's writes, shared by all runs of a supervisor. After a failed write the others wait; after
 * a growing pause one trial is allowed, and its success admits the others.
 */
export class StoreCircuitBreaker {
  readonly #clock: Clock;
  readonly #onSuccess: () => void;
  #opened: Deferred<void> | null = null;
  /** The next caller may try. */
  #halfOpen = false;
  #pauseMs: number = defaults.storeRetryMs;
  #timer: Timer | null = null;
  #lastError: unknown = null;

  constructor(clock: Clock, onSuccess: () => void = () => {}) {
    this.#clock = clock;
    this.#onSuccess = onSuccess;
  }

  /** Null: write, then call `recordSuccess` or `recordFailure`. Otherwise ask again when the promise resolves. */
  admit(): Promise<void> | null {
    if (this.#opened === null) return null;
    if (this.#halfOpen) {
      this.#halfOpen = false;
      return null;
    }
    return this.#opened.promise;
  }

  /** Error of the last write; null: it succeeded, or there was none. */
  get lastError(): unknown {
    return this.#lastError;
  }

  recordSuccess(): void {
    this.#onSuccess();
    this.#lastError = null;
    if (this.#opened === null) return;
    this.#pauseMs = defaults.storeRetryMs;
    this.#close();
  }

  recordFailure(error: unknown = null): void {
    this.#lastError = error;
    this.#opened ??= deferred<void>();
    if (this.#timer !== null || this.#halfOpen) return;
    this.#timer = this.#clock.setTimer(this.#clock.jitter(this.#pauseMs), () => this.#allowTrial(), {
      keepAlive: true,
    });
    this.#pauseMs = Math.min(2 * this.#pauseMs, defaults.storeRetryMaxMs);
  }

  /** Admits all waiting callers for good. */
  dispose(): void {
    this.#close();
  }

  #allowTrial(): void {
    const waiting = this.#opened;
    this.#timer = null;
    this.#halfOpen = true;
    this.#opened = deferred<void>();
    waiting?.resolve();
  }

  #close(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#halfOpen = false;
    const waiting = this.#opened;
    this.#opened = null;
    waiting?.resolve();
  }
}

interface QueuedWrite {
  readonly change: RunChange | null;
  readonly events: readonly NewRunEvent[];
  /** Set for the terminal write: resolves with the committed record. */
  readonly committed: Deferred<RunRecord> | null;
}

export interface WriteQueueObserver {
  /** A write failed and will be repeated. */
  onRetry(error: unknown): void;
  /**
   * The store does not have this lease. True: the store was rolled back and the record is restored, so the write is
   * repeated. Rejects when that cannot be found out now.
   */
  onRolledBack(): Promise<boolean>;
  /** Another supervisor owns the run, or its record is gone: nothing more is written. */
  onReplaced(error: LeaseLost | RunNotFound): void;
}

/**
 * One run's writes to the store, in order. A failed write is repeated until it succeeds, so that a stop does not wait
 * for the store, and the end of a run is recorded even if the disk was full for a while.
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

  /** `record`: as it is in the store now. */
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

  /** The run's record as it will be when all queued writes are committed. */
  get record(): RunRecord {
    const { ownerInstanceId, epoch: leaseEpoch } = this.#lease;
    return { ...this.#record, ownerInstanceId, leaseEpoch };
  }

  /** Number of writes that are not committed. */
  get pending(): number {
    return this.#queue.length;
  }

  /** Applies a change that was committed without this queue. */
  committed(change: RunChange): void {
    this.#record = applyRunChange(this.#record, change);
  }

  /** Resolves when a write has failed for the first time. */
  get firstFailure(): Promise<void> {
    return this.#firstFailure.promise;
  }

  /** Continues under a newer epoch of the same run. */
  setLease(lease: Lease): void {
    this.#lease = lease;
  }

  enqueue(change: RunChange | null, events: readonly NewRunEvent[] = []): void {
    this.#append({ change, events, committed: null });
  }

  /** Resolves with the record when the end is committed; rejects only when the queue is closed before that. */
  enqueueTerminal(change: RunChange, events: readonly NewRunEvent[]): Promise<RunRecord> {
    const committed = deferred<RunRecord>();
    this.#append({ change, events, committed });
    return committed.promise;
  }

  /** Stops writing and drops the queued writes. */
  close(error: Error): void {
    if (this.#closed !== null) return;
    this.#closed = error;
    for (const { committed } of this.#queue.splice(0)) committed?.reject(error);
  }

  #append(entry: QueuedWrite): void {
    if (this.#closed !== null) return entry.committed?.reject(this.#closed);
    if (entry.change !== null) this.#record = applyRunChange(this.#record, entry.change);
    // While the store fails, keep only the newest output heartbeat. The first entry may be in flight.
    if (
      entry.change?.to === "output" &&
      this.#queue.length > 1 &&
      this.#queue.at(-1)?.change?.to === "output"
    )
      this.#queue.pop();
    this.#queue.push(entry);
    if (!this.#draining) void this.#drain();
  }

  /** Never rejects. The first write begins synchronously. */
  async #drain(): Promise<void> {
    this.#draining = true;
    for (let entry = this.#queue[0]; entry !== undefined; entry = this.#queue[0]) {
      for (let wait = this.#breaker.admit(); wait !== null; wait = this.#breaker.admit()) {
        // A failed write of another run counts as a failure of this one.
        this.#firstFailure.resolve();
        await wait;
        // Checked before `admit`: a trial without a result would keep the breaker open.
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
    let restored: boolean;
    try {
      restored = await this.#observer.onRolledBack();
    } catch (failure) {
      return this.#onFailed(failure);
    }
    // The store answers. The refusal does not count if the epoch was renewed in the meantime.
    this.#breaker.recordSuccess();
    if (restored || this.#closed !== null) return;
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
    // Read back, because another supervisor may have ended the run first.
    const record = await this.#store.getRun(runId);
    if (record === null) throw new RunNotFound(runId);
    return record;
  }
}
