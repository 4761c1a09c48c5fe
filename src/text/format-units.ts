const UNIT_MS = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1_000 } as const;

/** The two largest units: `1h30m`, `2.5s`, `40ms`. */
export function formatDuration(ms: number): string {
  if (ms < UNIT_MS.s) return `${Math.round(ms)}ms`;
  if (ms < 10 * UNIT_MS.s) return `${Math.floor(ms / 100) / 10}s`;
  const [large, small] =
    ms < UNIT_MS.h ? (["m", "s"] as const) : ms < UNIT_MS.d ? (["h", "m"] as const) : (["d", "h"] as const);
  const whole = Math.floor(ms / UNIT_MS[large]);
  const rest = Math.floor((ms % UNIT_MS[large]) / UNIT_MS[small]);
  return `${whole > 0 ? `${whole}${large}` : ""}${rest > 0 || whole === 0 ? `${rest}${small}` : ""}`;
}

/** The time between two moments; `0ms` if their order is reversed, as after a change of the clock. */
export function formatElapsed(from: number, to = Date.now()): string {
  return formatDuration(Math.max(0, to - from));
}

/** `1.5 MiB`; whole bytes below one KiB. */
export function formatSize(bytes: number): string {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let at = 0;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${at === 0 || value >= 100 ? Math.round(value) : Math.round(value * 10) / 10} ${units[at]}`;
}
