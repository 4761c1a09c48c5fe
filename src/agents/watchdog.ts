import { watchdogFloorMs, watchdogProfiles } from "../defaults.js";

export interface WatchdogProfile {
  readonly ratio: number;
  readonly minMs: number;
  readonly maxMs: number;
}

/** A limit that fires together with the overall timeout would blame the wrong one. */
const belowTimeoutMs = 1_000;

/**
 * How long a CLI agent may be silent. Derived from its overall timeout, so that a long job gets patience
 * and a hung one is still noticed early; without a timeout (0), the profile's longest.
 */
export function noOutputLimit(
  profile: keyof typeof watchdogProfiles | WatchdogProfile,
  timeoutMs: number,
): number {
  const { ratio, minMs, maxMs } = typeof profile === "string" ? watchdogProfiles[profile] : profile;
  if (timeoutMs === 0) return Math.max(watchdogFloorMs, maxMs);
  const wanted = Math.min(maxMs, Math.max(minMs, Math.floor(ratio * timeoutMs)));
  return Math.max(watchdogFloorMs, Math.min(wanted, timeoutMs - belowTimeoutMs));
}
