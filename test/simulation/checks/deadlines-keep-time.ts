import type { SimulatedAnchor } from "../parts/anchor.js";

/** A deadline fires when its time has passed on the monotonic clock, whatever the wall's says. */
export function deadlinesKeepTime(anchor: SimulatedAnchor, reason: string): string | null {
  const { overallMs, noOutputMs } = anchor.spec.policy;
  const limit = { "overall-timeout": overallMs, "no-output-timeout": noOutputMs }[reason];
  if (limit === undefined) return null;
  if (limit === null) return `${reason} fired, and there is none`;
  return anchor.elapsedMs < limit ? `${reason} of ${limit} ms fired after ${anchor.elapsedMs} ms` : null;
}
