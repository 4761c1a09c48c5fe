import { defaults } from "../defaults.js";
import type { Clock, Timer } from "./clock.js";

/** Says at most once per heartbeat that a run is producing output. Of a short run only its end says so. */
export class Activity {
  readonly #clock: Clock;
  readonly #note: (at: number) => void;
  readonly #since: number;
  #last: number;
  #lastAt: number | null = null;
  #timer: Timer | null = null;

  constructor(clock: Clock, note: (at: number) => void) {
    this.#clock = clock;
    this.#since = clock.now();
    this.#last = this.#since;
    this.#note = note;
  }

  /** When output last came, on the wall clock; null: none has. */
  get lastAt(): number | null {
    return this.#lastAt;
  }

  /** How long nothing has come. */
  get idleMs(): number {
    return this.#clock.now() - this.#last;
  }

  output(): void {
    this.#last = this.#clock.now();
    this.#lastAt = this.#clock.wall();
    if (this.#timer !== null) return;
    this.#timer = this.#clock.after(defaults.outputHeartbeatMs, () => {
      this.#timer = null;
      this.#noteLast();
    });
  }

  /** The run is over. The last output of a run long enough to have been noted is noted too. */
  stop(): void {
    if (this.#timer === null) return;
    this.#timer.cancel();
    this.#timer = null;
    if (this.#clock.now() - this.#since >= defaults.outputHeartbeatMs) this.#noteLast();
  }

  #noteLast(): void {
    if (this.#lastAt !== null) this.#note(this.#lastAt);
  }
}
