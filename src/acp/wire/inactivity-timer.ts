import type { Clock, Timer } from "../../async/clock.js";

/** Calls back once when there was no activity for the limit. Pauses, and time while `isPaused` is true, do not count. */
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

  start(limitMs: number): void {
    this.stop();
    this.#limitMs = limitMs;
    this.recordActivity();
    this.#arm(limitMs);
  }

  stop(): void {
    this.#limitMs = null;
    this.#timer?.cancel();
    this.#timer = null;
  }

  recordActivity(): void {
    this.#activeAt = this.#clock.now();
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
      this.stop();
      this.#onExpired(limitMs);
    });
  }
}
