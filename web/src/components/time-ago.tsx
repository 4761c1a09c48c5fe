import { now } from "../live/clock.js";
import { formatDuration } from "./duration.js";

/** The time since something, kept current; the exact time is its tooltip. */
export function TimeAgo({ at, suffix = "ago" }: { readonly at: number; readonly suffix?: string }) {
  const date = new Date(at);
  const elapsed = now.value - at;
  return (
    <time dateTime={date.toISOString()} title={date.toLocaleString()}>
      {elapsed < 1_000 ? "just now" : `${formatDuration(elapsed)} ${suffix}`.trim()}
    </time>
  );
}

/** The time left until something. */
export function TimeUntil({ at }: { readonly at: number }) {
  const date = new Date(at);
  return (
    <time class="number" dateTime={date.toISOString()} title={date.toLocaleString()}>
      in {formatDuration(Math.max(0, at - now.value))}
    </time>
  );
}

/** The duration of something, or (`to` null) the time since it began. */
export function Elapsed({ from, to }: { readonly from: number; readonly to: number | null }) {
  return <span class="number">{formatDuration(Math.max(0, (to ?? now.value) - from))}</span>;
}
