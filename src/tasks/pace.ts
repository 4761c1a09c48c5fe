/**
 * In how many milliseconds a change may be told: changes of one task keep their distance, and one that waits for its
 * time is replaced by the next. `noticedAt`: when the last one was told, or is to be.
 */
export function noticeDelay(noticedAt: number | null, now: number, everyMs: number): number {
  if (noticedAt === null) return 0;
  const at = noticedAt > now ? noticedAt : noticedAt + everyMs;
  // Not longer, wherever the wall clock was when it was written.
  return Math.min(Math.max(0, at - now), everyMs);
}
