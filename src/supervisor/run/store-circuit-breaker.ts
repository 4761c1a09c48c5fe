import type { Clock, Timer } from "../../async/clock.js";
import { deferred, type Deferred } from "../../async/deferred.js";
import { defaults } from "../../defaults.js";

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
