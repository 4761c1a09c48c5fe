import type { Notification, NotificationTarget } from "../model/outbox.js";

export type { Notification, NotificationTarget };

export type DeliveryReceipt =
  | { readonly status: "delivered"; readonly receipt: string | null }
  /** It waits in the parent session: not delivered until that has read it. */
  | { readonly status: "session_queued" }
  | { readonly status: "parent_missing" };

/** Delivers once or throws; whoever calls tries again. */
export interface Deliverer {
  deliver(
    target: NotificationTarget,
    notification: Notification,
    signal: AbortSignal,
  ): Promise<DeliveryReceipt>;
}

export interface DeliveryFailedOptions extends ErrorOptions {
  /** Trying again cannot help: the receiver says so, or it is addressed to nobody. What is wrong here may be mended. */
  readonly permanent?: boolean;
  /** What the receiver asked for. */
  readonly retryAfterMs?: number | null;
  /** It may have arrived all the same: the next attempt may repeat it. */
  readonly resultUnknown?: boolean;
}

/** A courier could not deliver. Its message is kept with the entry and shown. */
export class DeliveryFailed extends Error {
  override readonly name = "DeliveryFailed";
  readonly permanent: boolean;
  readonly retryAfterMs: number | null;
  readonly resultUnknown: boolean;

  constructor(message: string, options: DeliveryFailedOptions = {}) {
    const { permanent = false, retryAfterMs = null, resultUnknown: unheard = false, ...rest } = options;
    super(message, rest);
    this.permanent = permanent;
    this.retryAfterMs = retryAfterMs;
    this.resultUnknown = unheard;
  }
}
