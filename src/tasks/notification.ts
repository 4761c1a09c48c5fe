import type { Notification, Target } from "../store/task-record.js";

export type { Notification, Target };

export type Receipt =
  | { readonly status: "delivered"; readonly receipt: string | null }
  /** It waits in the parent session: not delivered until that has read it. */
  | { readonly status: "session_queued" }
  | { readonly status: "parent_missing" };

/** Delivers once or throws; whoever calls tries again. */
export interface Courier {
  deliver(target: Target, notification: Notification, signal: AbortSignal): Promise<Receipt>;
}

export interface DeliveryFailedOptions extends ErrorOptions {
  /** Trying again cannot help: the receiver says so, or it is addressed to nobody. What is wrong here may be mended. */
  readonly permanent?: boolean;
  /** What the receiver asked for. */
  readonly retryAfterMs?: number | null;
  /** It may have arrived all the same: the next attempt may repeat it. */
  readonly unheard?: boolean;
}

/** A courier could not deliver. Its message is kept with the entry and shown. */
export class DeliveryFailed extends Error {
  override readonly name = "DeliveryFailed";
  readonly permanent: boolean;
  readonly retryAfterMs: number | null;
  readonly unheard: boolean;

  constructor(message: string, options: DeliveryFailedOptions = {}) {
    const { permanent = false, retryAfterMs = null, unheard = false, ...rest } = options;
    super(message, rest);
    this.permanent = permanent;
    this.retryAfterMs = retryAfterMs;
    this.unheard = unheard;
  }
}
