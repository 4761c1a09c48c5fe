import type { Notification } from "../model/outbox.js";

export interface Channel {
  /**
   * Makes one attempt. Resolves with the receiver's id of the message, if it has one; rejects with DeliveryFailed.
   * `address`: the receiver within the channel; null: as configured.
   */
  deliver(notification: Notification, address: string | null, signal: AbortSignal): Promise<string | null>;
  /** Shows a typing indicator for a few seconds. Missing: unsupported, or turned off. */
  typing?(address: string | null, signal: AbortSignal): Promise<void>;
}
