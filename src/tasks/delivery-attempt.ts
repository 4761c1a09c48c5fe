import type { Notification, NotificationTarget } from "../model/outbox.js";

export type DeliveryReceipt =
  | { readonly status: "delivered"; readonly receipt: string | null }
  /** In the inbox of the parent session, and delivered when that session has read it. */
  | { readonly status: "session_queued" }
  | { readonly status: "parent_missing" };

/** Makes one attempt to deliver a notification. Throws if it fails; the notifier retries. */
export type Deliver = (
  target: NotificationTarget,
  notification: Notification,
  signal: AbortSignal,
) => Promise<DeliveryReceipt>;

interface DeliveryFailedOptions extends ErrorOptions {
  /** A retry cannot succeed: the receiver says so, or there is no address. */
  readonly permanent?: boolean;
  /** The delay that the receiver requested. */
  readonly retryAfterMs?: number | null;
  /** The notification may have arrived, so a retry may repeat it. */
  readonly resultUnknown?: boolean;
}

/** An attempt to deliver failed. The message is stored with the outbox entry and shown. */
export class DeliveryFailed extends Error {
  override readonly name = "DeliveryFailed";
  readonly permanent: boolean;
  readonly retryAfterMs: number | null;
  readonly resultUnknown: boolean;

  constructor(message: string, options: DeliveryFailedOptions = {}) {
    const { permanent = false, retryAfterMs = null, resultUnknown = false, ...rest } = options;
    super(message, rest);
    this.permanent = permanent;
    this.retryAfterMs = retryAfterMs;
    this.resultUnknown = resultUnknown;
  }
}

interface FailedAttempt {
  /** Time spent on this notification before the attempt. */
  readonly spentMs: number;
  readonly tookMs: number;
  /** A retry cannot succeed. */
  readonly permanent: boolean;
  /** The delay that the receiver requested. */
  readonly retryAfterMs: number | null;
}

interface RetryLimits {
  readonly retryMs: number;
  readonly maxRetryMs: number;
  readonly totalMs: number;
}

/**
 * The pause before the next attempt; null: no more attempts. Pauses double up to a bound, plus jitter, so that
 * notifications to the same receiver do not retry in step. Only time spent in attempts and pauses counts towards
 * `totalMs`, not the time while no gateway runs.
 */
export function nextAttempt(
  failure: FailedAttempt,
  { retryMs, maxRetryMs, totalMs }: RetryLimits,
  jitter: (ms: number) => number,
): { readonly inMs: number; readonly spentMs: number } | null {
  if (failure.permanent) return null;
  const exponent = Math.floor(Math.log2(1 + failure.spentMs / retryMs));
  const backoff = Math.min(retryMs * 2 ** exponent, maxRetryMs);
  const pause = backoff + (backoff - jitter(backoff)) / 2;
  const left = totalMs - failure.spentMs - failure.tookMs;
  if (pause > left) return null;
  // A receiver that requests a longer delay than is left gets one last attempt.
  const inMs = Math.max(pause, Math.min(failure.retryAfterMs ?? 0, left));
  return { inMs, spentMs: failure.spentMs + failure.tookMs + inMs };
}
