import { defaults } from "../defaults.js";

/** Says at most once per heartbeat that a run is producing output, and nothing of a short run. */
export class Activity {
  readonly #note: (at: number) => void;
  readonly #since = performance.now();
  #lastAt = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(note: (at: number) => void) {
    this.#note = note;
  }

  output(): void {
    this.#lastAt = Date.now();
    if (this.#timer !== null) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#note(this.#lastAt);
    }, defaults.outputHeartbeatMs);
    this.#timer.unref();
  }

  /** The run is over. The last output of a run long enough to have been noted is noted too. */
  stop(): void {
    if (this.#timer === null) return;
    clearTimeout(this.#timer);
    this.#timer = null;
    if (performance.now() - this.#since >= defaults.outputHeartbeatMs) this.#note(this.#lastAt);
  }
}
