import type { Clock, Timer } from "../../async/clock.js";

/**
 * Calls back when there was no activity for the limit, and again when that happens after new activity. Pauses, and time
 * while `isPaused` is true, do not count.
 */
export class InactivityTimer {
  readonly #clock: Clock;
  readonly #isPaused: () => boolean;
  readonly #onExpired: (ms: number) => void;
  #limitMs: number | null = null;
  #activeAt = 0;
  #pauses = 0;
  #timer: Timer | null = null;

  constructor(clock: Clock, isPaused: () => boolean, onExpired: (ms: number) => void) {
    this.#clock = clock;
    this.#isPaused = isPaused;
    this.#onExpired = onExpired;
  }

  /** `limitMs` null: no limit. */
  start(limitMs: number | null): void {
    this.stop();
    this.#limitMs = limitMs;
    this.recordActivity();
  }

  stop(): void {
    this.#limitMs = null;
    this.#timer?.cancel();
    this.#timer = null;
  }

  recordActivity(): void {
    this.#activeAt = this.#clock.now();
    if (this.#limitMs !== null && this.#timer === null) this.#arm(this.#limitMs);
  }

  pause(): void {
    this.#pauses++;
  }

  resume(): void {
    this.#pauses--;
    this.recordActivity();
  }

  /** Activity does not touch the timer; the timer checks the clock when it fires. */
  #arm(ms: number): void {
    this.#timer = this.#clock.setTimer(ms, () => {
      const limitMs = this.#limitMs;
      if (limitMs === null) return;
      if (this.#pauses > 0 || this.#isPaused()) return this.#arm(limitMs);
      const left = this.#activeAt + limitMs - this.#clock.now();
      if (left > 0) return this.#arm(left);
      this.#timer = null;
      this.#onExpired(limitMs);
    });
  }
}
