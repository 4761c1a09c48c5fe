import type { Notification } from "../tasks/notification.js";

/** One way to reach somebody. */
export interface Channel {
  /**
   * Delivers once, and resolves with what the receiver calls it, if anything; or rejects with DeliveryFailed. `address`: whom
   * within the channel; null: as it is configured.
   */
  deliver(notification: Notification, address: string | null, signal: AbortSignal): Promise<string | null>;
}
