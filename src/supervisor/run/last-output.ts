import type { Clock, Timer } from "../../async/clock.js";
import { defaults } from "../../defaults.js";

/** Records output at most once per heartbeat interval. For a shorter run, only its terminal record does. */
export class LastOutput {
  readonly #clock: Clock;
  readonly #record: (at: number) => void;
  readonly #startedAt: number;
  #lastOutput: number;
  #lastOutputAt: number | null = null;
  #timer: Timer | null = null;

  constructor(clock: Clock, record: (at: number) => void) {
    this.#clock = clock;
    this.#startedAt = clock.now();
    this.#lastOutput = this.#startedAt;
    this.#record = record;
  }

  /** Time of the last output, on the wall clock; null: there was none. */
  get lastOutputAt(): number | null {
    return this.#lastOutputAt;
  }

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

  /** Call at the end of the run. The last output of a long run is recorded. */
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
