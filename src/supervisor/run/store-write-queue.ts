import type { Clock, Timer } from "../../async/clock.js";
import { deferred, type Deferred } from "../../async/deferred.js";
import { LeaseLost } from "../../errors.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import { applyRunChange } from "../../store/runs/apply-change.js";
import type { Lease, RunChange, RunStore } from "../../store/runs/contract.js";
import type { StoreCircuitBreaker } from "./store-circuit-breaker.js";

interface QueuedWrite {
  readonly change: RunChange | null;
  readonly events: readonly NewRunEvent[];
  /** Set for the terminal write: resolves with the committed record. */
  readonly committed: Deferred<RunRecord> | null;
}

interface WriteQueueOptions {
  /** The run has no record yet: nothing is written before `release`. */
  readonly held?: boolean;
  /** Time for which start and stop of a command wait for its end, to be written with it. Null: they are written at once. */
  readonly waitForEnd?: { readonly clock: Clock; readonly ms: number } | null;
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
  onReplaced(error: LeaseLost): void;
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
  #held: boolean;
  readonly #waitForEnd: WriteQueueOptions["waitForEnd"];
  #endTimer: Timer | null = null;
  #closed: Error | null = null;

  /** `record`: as it is in the store now, or as it will be inserted. */
  constructor(
    store: RunStore,
    storeBreaker: StoreCircuitBreaker,
    lease: Lease,
    record: RunRecord,
    observer: WriteQueueObserver,
    { held = false, waitForEnd = null }: WriteQueueOptions = {},
  ) {
    this.#store = store;
    this.#breaker = storeBreaker;
    this.#lease = lease;
    this.#record = record;
    this.#observer = observer;
    this.#held = held;
    this.#waitForEnd = waitForEnd;
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

  /** The record is in the store: writes may follow. */
  release(): void {
    this.#held = false;
    this.#begin();
  }

  /** Writes a start or stop that waits for the end of its run. */
  flush(): void {
    if (this.#endTimer === null) return;
    this.#cancelEndTimer();
    if (!this.#draining) void this.#drain();
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
    this.#cancelEndTimer();
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
    this.#queue.push(this.#mergeWithLast(entry));
    this.#begin();
  }

  /** Removes the last writes from the queue that can be one with this end. */
  #mergeWithLast(entry: QueuedWrite): QueuedWrite {
    const last = this.#queue.at(-1);
    const inFlight = this.#queue.length === 1 && this.#draining;
    const merged = last === undefined || inFlight ? null : mergeWithEnd(last, entry);
    if (merged === null) return entry;
    this.#queue.pop();
    return this.#mergeWithLast(merged);
  }

  #begin(): void {
    if (this.#held || this.#draining || this.#queue.length === 0 || this.#closed !== null) return;
    const [first, ...more] = this.#queue;
    const canWait = more.length === 0 && canWaitForEnd(first?.change ?? null);
    if (canWait && this.#waitForEnd && this.#waitForEnd.ms > 0) {
      const { clock, ms } = this.#waitForEnd;
      this.#endTimer ??= clock.setTimer(ms, () => this.flush());
      return;
    }
    this.#cancelEndTimer();
    void this.#drain();
  }

  #cancelEndTimer(): void {
    this.#endTimer?.cancel();
    this.#endTimer = null;
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
    if (!(error instanceof LeaseLost)) return this.#onFailed(error);
    let restored: boolean;
    try {
      restored = await this.#observer.onRolledBack();
    } catch (failure) {
      return this.#onFailed(failure);
    }
    // The store answers. The refusal does not count if the epoch was renewed in the meantime.
    this.#breaker.recordSuccess();
    if (restored || this.#closed !== null) return;
    if (error.epoch !== this.#lease.epoch) return;
    this.close(error);
    this.#observer.onReplaced(error);
  }

  #onFailed(error: unknown): void {
    this.#breaker.recordFailure(error);
    if (this.#closed !== null) return;
    this.#firstFailure.resolve();
    this.#observer.onRetry(error);
  }

  async #save({ change, events }: QueuedWrite): Promise<RunRecord | null> {
    // The record as it is in the store, because another supervisor may have ended the run first.
    if (change?.to === "exited") return this.#store.finalizeRun(this.#lease, change, events);
    if (change === null) await this.#store.appendEvents(events);
    else await this.#store.saveRun(this.#lease, change, events);
    return null;
  }
}

function canWaitForEnd(change: RunChange | null): boolean {
  return change?.to === "running" || change?.to === "exiting";
}

/** One write for the end of a run and its start or stop. Null: the two writes are something else. */
function mergeWithEnd({ change, events }: QueuedWrite, end: QueuedWrite): QueuedWrite | null {
  if (end.change?.to !== "exited" || !canWaitForEnd(change)) return null;
  return {
    change: change?.to === "running" ? { ...end.change, startedAt: change.at } : end.change,
    events: [...events, ...end.events],
    committed: end.committed,
  };
}
