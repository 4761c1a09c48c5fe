import type { Notification } from "../tasks/delivery.js";

/** One way to reach somebody. */
export interface Channel {
  /**
   * Delivers once, and resolves with what the receiver calls it, if anything; or rejects with DeliveryFailed. `address`: whom
   * within the channel; null: as it is configured.
   */
  deliver(notification: Notification, address: string | null, signal: AbortSignal): Promise<string | null>;
  /** Shows for a few seconds that somebody is at work. Left out: it cannot, or is not to. */
  typing?(address: string | null, signal: AbortSignal): Promise<void>;
}
