import type { Clock, Timer } from "../../supervisor/clock.js";

/** Calls once when nothing was heard for the limit. While it is ours, or held for a person, it does not count. */
export class Silence {
  readonly #clock: Clock;
  readonly #isOurs: () => boolean;
  readonly #onSilence: (ms: number) => void;
  #limitMs: number | null = null;
  #heardAt = 0;
  #holds = 0;
  #timer: Timer | null = null;

  constructor(clock: Clock, isOurs: () => boolean, onSilence: (ms: number) => void) {
    this.#clock = clock;
    this.#isOurs = isOurs;
    this.#onSilence = onSilence;
  }

  watch(limitMs: number): void {
    this.stop();
    this.#limitMs = limitMs;
    this.heard();
    this.#arm(limitMs);
  }

  stop(): void {
    this.#limitMs = null;
    this.#timer?.cancel();
    this.#timer = null;
  }

  heard(): void {
    this.#heardAt = this.#clock.now();
  }

  hold(): void {
    this.#holds++;
  }

  release(): void {
    this.#holds--;
    this.heard();
  }

  /** What is heard meanwhile leaves the timer alone: it looks at the clock when it fires. */
  #arm(ms: number): void {
    this.#timer = this.#clock.after(ms, () => {
      const limitMs = this.#limitMs;
      if (limitMs === null) return;
      if (this.#holds > 0 || this.#isOurs()) return this.#arm(limitMs);
      const left = this.#heardAt + limitMs - this.#clock.now();
      if (left > 0) return this.#arm(left);
      this.stop();
      this.#onSilence(limitMs);
    });
  }
}
