import { defaults } from "../../defaults.js";
import type { Clock, Timer } from "../../async/clock.js";
import { deferred, type Deferred } from "../../async/deferred.js";

/**
 * One store serves all runs of a supervisor: what refuses one write refuses the others, too. So when one has been
 * refused the others wait: after a growing pause one goes ahead, and only its success lets the rest follow.
 */
export class StoreCircuitBreaker {
  readonly #clock: Clock;
  readonly #onSuccess: () => void;
  #opened: Deferred<void> | null = null;
  /** Shut, but the next to ask may try. */
  #halfOpen = false;
  #pauseMs: number = defaults.storeRetryMs;
  #timer: Timer | null = null;
  #lastError: unknown = null;

  /** `answered` is told of every write that was accepted. */
  constructor(clock: Clock, answered: () => void = () => {}) {
    this.#clock = clock;
    this.#onSuccess = answered;
  }

  /** Null: go ahead, and say afterwards how it went. Otherwise ask again when it resolves. */
  admit(): Promise<void> | null {
    if (this.#opened === null) return null;
    if (this.#halfOpen) {
      this.#halfOpen = false;
      return null;
    }
    return this.#opened.promise;
  }

  /** Why the last write was refused; null: it was not, or nothing has been answered yet. */
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

  /** For good. Whoever still waits goes ahead, and finds out. */
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
