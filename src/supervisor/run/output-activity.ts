import { defaults } from "../../defaults.js";
import type { Clock, Timer } from "../../async/clock.js";

/** Says at most once per heartbeat that a run is producing output. Of a short run only its end says so. */
export class OutputActivity {
  readonly #clock: Clock;
  readonly #record: (at: number) => void;
  readonly #startedAt: number;
  #lastOutput: number;
  #lastOutputAt: number | null = null;
  #timer: Timer | null = null;

  constructor(clock: Clock, note: (at: number) => void) {
    this.#clock = clock;
    this.#startedAt = clock.now();
    this.#lastOutput = this.#startedAt;
    this.#record = note;
  }

  /** When output last came, on the wall clock; null: none has. */
  get lastOutputAt(): number | null {
    return this.#lastOutputAt;
  }

  /** How long nothing has come. */
  get idleMs(): number {
    return this.#clock.now() - this.#lastOutput;
  }

  onOutput(): void {
    this.#lastOutput = this.#clock.now();
    this.#lastOutputAt = this.#clock.wall();
    if (this.#timer !== null) return;
    this.#timer = this.#clock.setTimer(defaults.outputHeartbeatMs, () => {
      this.#timer = null;
      this.#recordLast();
    });
  }

  /** The run is over. The last output of a run long enough to have been noted is noted too. */
  stop(): void {
    if (this.#timer === null) return;
    this.#timer.cancel();
    this.#timer = null;
    if (this.#clock.now() - this.#startedAt >= defaults.outputHeartbeatMs) this.#recordLast();
  }

  #recordLast(): void {
    if (this.#lastOutputAt !== null) this.#record(this.#lastOutputAt);
  }
}
