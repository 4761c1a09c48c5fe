import { BadInput } from "../../errors.js";

const UNIT_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;
type DurationUnit = keyof typeof UNIT_MS;

/** Each unit at most once, largest first: `1h30m`, `500ms`, `1.5h`. */
const DURATION_PATTERN =
  /^(?:(?<d>\d+(?:\.\d+)?)d)?(?:(?<h>\d+(?:\.\d+)?)h)?(?:(?<m>\d+(?:\.\d+)?)m)?(?:(?<s>\d+(?:\.\d+)?)s)?(?:(?<ms>\d+(?:\.\d+)?)ms)?$/;

/** A longer duration is most likely a typing error. */
const MAX_DURATION_MS = 365 * UNIT_MS.d;

/** Milliseconds from `1h30m` or `500ms`. A plain number is seconds, as for timeout(1) and sleep(1). */
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

/** A time in epoch milliseconds: a duration before `now`, or an ISO 8601 date or time. */
export function parseTime(text: string, now: number): number {
  if (/^\d{4}-\d{2}-\d{2}/.test(text)) {
    const time = Date.parse(text);
    if (!Number.isNaN(time)) return time;
  } else if (/^\d+(?:\.\d+)?$/.test(text) || parseUnits(text) !== null) return now - parseDuration(text);
  throw new BadInput(
    "time",
    `${JSON.stringify(text)} is not a time; write how long ago, such as 10m, or a time, such as 2026-01-31T12:00`,
  );
}

/** As for dd(1): K, M, G and KiB, MiB, GiB count in 1024s; kB, MB, GB in 1000s. */
const UNIT_BYTES: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  k: 1024,
  kib: 1024,
  kb: 1_000,
  m: 1024 ** 2,
  mib: 1024 ** 2,
  mb: 1_000 ** 2,
  g: 1024 ** 3,
  gib: 1024 ** 3,
  gb: 1_000 ** 3,
};

/** A size as people write it, in bytes: `8M`, `64KiB`, `1.5GB`, `4096`. */
export function parseSize(text: string, field = "size"): number {
  const match = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(text);
  const unit = UNIT_BYTES[match?.[2]?.toLowerCase() ?? "?"];
  const bytes = unit === undefined ? Number.NaN : Math.floor(Number(match?.[1]) * unit);
  if (!Number.isSafeInteger(bytes))
    throw new BadInput(field, `${JSON.stringify(text)} is not a size; write 8M, 64KiB, 1.5GB, or bytes`);
  return bytes;
}
