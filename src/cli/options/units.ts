import { BadInput } from "../../errors.js";

const UNIT_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;
type DurationUnit = keyof typeof UNIT_MS;

/** Each unit at most once, largest first: `1h30m`, `500ms`, `1.5h`. */
const DURATION_PATTERN =
  /^(?:(?<d>\d+(?:\.\d+)?)d)?(?:(?<h>\d+(?:\.\d+)?)h)?(?:(?<m>\d+(?:\.\d+)?)m)?(?:(?<s>\d+(?:\.\d+)?)s)?(?:(?<ms>\d+(?:\.\d+)?)ms)?$/;

/** Nobody waits longer, and a slip of the finger should not become a deadline in the next century. */
const MAX_DURATION_MS = 365 * UNIT_MS.d;

/** A duration as people write it, in milliseconds. A plain number is seconds, as for timeout(1) and sleep(1). */
export function parseDuration(text: string, field = "duration"): number {
  const ms = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) * UNIT_MS.s : parseUnits(text);
  if (ms === null)
    throw new BadInput(
      field,
      `${JSON.stringify(text)} is not a duration; write 30m, 1h30m, 10s, 500ms, or seconds`,
    );
  if (ms > MAX_DURATION_MS) throw new BadInput(field, `${JSON.stringify(text)} is longer than 365 days`);
  // Rounding a positive time down to 0 would turn "very soon" into "never".
  return ms > 0 ? Math.max(1, Math.round(ms)) : 0;
}

function parseUnits(text: string): number | null {
  const groups = text === "" ? undefined : DURATION_PATTERN.exec(text)?.groups;
  if (groups === undefined) return null;
  let total = 0;
  for (const unit of Object.keys(UNIT_MS) as DurationUnit[])
    total += Number(groups[unit] ?? 0) * UNIT_MS[unit];
  return total;
}

/** The two largest units that matter: `1h30m`, `2.5s`, `40ms`. */
export function formatDuration(ms: number): string {
  if (ms < UNIT_MS.s) return `${Math.round(ms)}ms`;
  if (ms < 10 * UNIT_MS.s) return `${Math.floor(ms / 100) / 10}s`;
  const [large, small] =
    ms < UNIT_MS.h ? (["m", "s"] as const) : ms < UNIT_MS.d ? (["h", "m"] as const) : (["d", "h"] as const);
  const whole = Math.floor(ms / UNIT_MS[large]);
  const rest = Math.floor((ms % UNIT_MS[large]) / UNIT_MS[small]);
  return `${whole > 0 ? `${whole}${large}` : ""}${rest > 0 || whole === 0 ? `${rest}${small}` : ""}`;
}
