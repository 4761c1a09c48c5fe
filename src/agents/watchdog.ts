import { watchdogFloorMs, watchdogProfiles } from "../defaults.js";

export interface WatchdogProfile {
  readonly ratio: number;
  readonly minMs: number;
  readonly maxMs: number;
}

/** Keeps the limit below the overall timeout, so that the reason of a stop is unambiguous. */
const BELOW_TIMEOUT_MS = 1_000;

/**
 * How long a CLI agent may print nothing: a share of its overall timeout within the profile's limits; without a timeout
 * (0), the profile's maximum.
 */
export function noOutputLimit(
  profile: keyof typeof watchdogProfiles | WatchdogProfile,
  timeoutMs: number,
): number {
  const { ratio, minMs, maxMs } = typeof profile === "string" ? watchdogProfiles[profile] : profile;
  if (timeoutMs === 0) return Math.max(watchdogFloorMs, maxMs);
  const wanted = Math.min(maxMs, Math.max(minMs, Math.floor(ratio * timeoutMs)));
  return Math.max(watchdogFloorMs, Math.min(wanted, timeoutMs - BELOW_TIMEOUT_MS));
}
