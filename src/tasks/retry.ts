/** An attempt that failed. */
export interface FailedAttempt {
  /** Of the time for all attempts, what was gone before it, and what it took. */
  readonly spentMs: number;
  readonly tookMs: number;
  /** Trying again cannot help. */
  readonly permanent: boolean;
  /** What the receiver asked for. */
  readonly retryAfterMs: number | null;
}

export interface RetryLimits {
  readonly retryMs: number;
  readonly maxRetryMs: number;
  readonly totalMs: number;
}

export interface NextAttempt {
  readonly inMs: number;
  readonly spentMs: number;
}

/**
 * When to try again; null: never. Pauses double, up to a bound, and are a little longer than that, so that those who met
 * the same receiver do not come back in step. Only what was spent on it counts: while no gateway runs, nothing is.
 */
export function nextAttempt(
  failure: FailedAttempt,
  { retryMs, maxRetryMs, totalMs }: RetryLimits,
  jitter: (ms: number) => number,
): NextAttempt | null {
  if (failure.permanent) return null;
  const exponent = Math.floor(Math.log2(1 + failure.spentMs / retryMs));
  const usual = Math.min(retryMs * 2 ** exponent, maxRetryMs);
  const pause = usual + (usual - jitter(usual)) / 2;
  const left = totalMs - failure.spentMs - failure.tookMs;
  if (pause > left) return null;
  // Who asks for more than there is, is asked a last time.
  const inMs = Math.max(pause, Math.min(failure.retryAfterMs ?? 0, left));
  return { inMs, spentMs: failure.spentMs + failure.tookMs + inMs };
}
