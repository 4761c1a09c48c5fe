import { defaults } from "../defaults.js";

/** What a Retry-After header asks for: seconds, or a date. Null: nothing that can be understood. */
export function parseRetryAfter(header: string | undefined, now: number): number | null {
  if (header === undefined) return null;
  const ms = /^\s*\d+\s*$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - now;
  return Number.isNaN(ms) ? null : boundRetryAfter(ms);
}

export function boundRetryAfter(ms: number): number {
  return Math.min(Math.max(ms, 0), defaults.channelRetryAfterMs);
}
