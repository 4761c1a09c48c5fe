import { defaults } from "../defaults.js";
import type { Clock, Timer } from "./clock.js";
import { deferred, type Deferred } from "./deferred.js";

/**
 * One store serves all runs of a supervisor: what refuses one write refuses the others, too. So when one has been
 * refused the others wait: after a growing pause one goes ahead, and only its success lets the rest follow.
 */
export class StoreGate {
  readonly #clock: Clock;
  readonly #answered: () => void;
  #shut: Deferred<void> | null = null;
  /** Shut, but the next to ask may try. */
  #ajar = false;
  #pauseMs: number = defaults.storeRetryMs;
  #timer: Timer | null = null;
  #refusal: unknown = null;

  /** `answered` is told of every write that was accepted. */
  constructor(clock: Clock, answered: () => void = () => {}) {
    this.#clock = clock;
    this.#answered = answered;
  }

  /** Null: go ahead, and say afterwards how it went. Otherwise ask again when it resolves. */
  enter(): Promise<void> | null {
    if (this.#shut === null) return null;
    if (this.#ajar) {
      this.#ajar = false;
      return null;
    }
    return this.#shut.promise;
  }

  /** Why the last write was refused; null: it was not, or nothing has been answered yet. */
  get refusal(): unknown {
    return this.#refusal;
  }

  accepted(): void {
    this.#answered();
    this.#refusal = null;
    if (this.#shut === null) return;
    this.#pauseMs = defaults.storeRetryMs;
    this.#open();
  }

  refused(error: unknown = null): void {
    this.#refusal = error;
    this.#shut ??= deferred<void>();
    if (this.#timer !== null || this.#ajar) return;
    this.#timer = this.#clock.after(this.#clock.spread(this.#pauseMs), () => this.#letOneTry(), {
      keepAlive: true,
    });
    this.#pauseMs = Math.min(2 * this.#pauseMs, defaults.storeRetryMaxMs);
  }

  /** For good. Whoever still waits goes ahead, and finds out. */
  dispose(): void {
    this.#open();
  }

  #letOneTry(): void {
    const waiting = this.#shut;
    this.#timer = null;
    this.#ajar = true;
    this.#shut = deferred<void>();
    waiting?.resolve();
  }

  #open(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#ajar = false;
    const waiting = this.#shut;
    this.#shut = null;
    waiting?.resolve();
  }
}
