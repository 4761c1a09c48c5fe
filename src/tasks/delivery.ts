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

export interface DeliveryFailedOptions extends ErrorOptions {
  /** A retry cannot succeed: the receiver says so, or there is no address. */
  readonly permanent?: boolean;
  /** The delay that the receiver asked for. */
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
