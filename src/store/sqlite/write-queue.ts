import { setTimeout as delay } from "node:timers/promises";
import { jitter } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import { isBusy } from "../../home/sqlite-errors.js";

// SQLite's own busy timeout sleeps in the calling thread, which would block the event loop and with it the output,
// deadlines and stops of every run. So handles have a busy timeout of 0, and this module waits for locks.

/** Executes `work`, and again while another process has the database locked, for at most `patienceMs`. */
export function retryWhileLocked<Result>(work: () => Result, patienceMs: number): Promise<Result> {
  return attempt(work, performance.now() + patienceMs);
}

/** The writes of one connection, in the order of the calls. No write overtakes one that waits for a lock. */
export class WriteQueue {
  readonly #patienceMs: number;
  /** Settles when the last write in the queue has; null: no write waits. */
  #last: Promise<void> | null = null;
  readonly #closing = new AbortController();

  /** `patienceMs` counts from the call, so writes that wait for the same lock give up together. */
  constructor(patienceMs: number) {
    this.#patienceMs = patienceMs;
  }

  /** If the queue is empty, the first attempt is within the call. */
  async write<Result>(work: () => Result): Promise<Result> {
    const deadline = performance.now() + this.#patienceMs;
    const { signal } = this.#closing;
    if (this.#last !== null) return this.#enqueue(this.#last.then(() => attempt(work, deadline, signal)));
    try {
      return work();
    } catch (error) {
      if (!isBusy(error)) throw error;
      return this.#enqueue(retryUntil(work, error, deadline, signal));
    }
  }

  /** Writes that wait are attempted once more, and refused if the database is still locked. */
  async close(): Promise<void> {
    this.#closing.abort();
    while (this.#last !== null) await this.#last;
  }

  #enqueue<Result>(result: Promise<Result>): Promise<Result> {
    const settled = result.then(ignore, ignore).then(() => {
      if (this.#last === settled) this.#last = null;
    });
    this.#last = settled;
    return result;
  }
}

async function attempt<Result>(work: () => Result, deadline: number, signal?: AbortSignal): Promise<Result> {
  try {
    return work();
  } catch (error) {
    return retryUntil(work, error, deadline, signal);
  }
}

/** After an abort there is one more attempt. */
async function retryUntil<Result>(
  work: () => Result,
  error: unknown,
  deadline: number,
  signal?: AbortSignal,
): Promise<Result> {
  const { storeLockRetryMs, storeLockRetryMaxMs } = defaults;
  let failure = error;
  for (let pauseMs: number = storeLockRetryMs; ; pauseMs = Math.min(2 * pauseMs, storeLockRetryMaxMs)) {
    if (!isBusy(failure) || performance.now() >= deadline) throw failure;
    if (signal?.aborted === true) throw failure;
    // Rejects when it is aborted.
    await delay(jitter(pauseMs), undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
    try {
      return work();
    } catch (again) {
      failure = again;
    }
  }
}

function ignore(): void {}
