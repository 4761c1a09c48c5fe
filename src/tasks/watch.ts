import { defaults } from "../defaults.js";

/** Between two looks there is less, unless the host slept, the store was away, or the clock was set. */
const MAX_GAP_MS = 2 * defaults.taskSweepMs;

/**
 * Since when somebody has been looking, without a gap. Of the time before it nobody can say who was not heard of: whoever
 * does the work could not be either.
 */
export class ObservationWindow {
  #since = Number.NaN;
  #last = Number.NaN;

  /** `now`: of the wall clock. */
  observedSince(now: number): number {
    if (!(Math.abs(now - this.#last) <= MAX_GAP_MS)) this.#since = now;
    this.#last = now;
    return this.#since;
  }
}
