import { hostMonotonicMs } from "../../store/sqlite/clock.js";
import { type Clock, systemClock } from "../../async/clock.js";

/** Goes on over restarts of this process, within one boot; and no agent lives longer. */
export const hostClock: Clock = { ...systemClock, now: hostMonotonicMs };

/** Larger than every id given out before on this boot: below a thousand requests a millisecond. */
export function monotonicId(): number {
  return hostMonotonicMs() * 1_000;
}
