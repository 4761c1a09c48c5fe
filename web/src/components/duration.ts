const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** The two largest units: `2h 5m`, `12s`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return "0s";
  const first = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[first] ?? ["s", 1_000];
  const whole = Math.floor(ms / size);
  const next = UNITS[first + 1];
  const rest = next === undefined ? 0 : Math.floor((ms % size) / next[1]);
  return next === undefined || rest === 0 ? `${whole}${unit}` : `${whole}${unit} ${rest}${next[0]}`;
}
