import { defaults } from "../defaults.js";
import type { Notification } from "../model/outbox.js";
import { truncate } from "../text/truncate.js";

export interface Channel {
  /**
   * Makes one attempt. Resolves with the receiver's id of the message, if it has one; rejects with DeliveryFailed.
   * `address`: the receiver within the channel; null: as configured.
   */
  deliver(notification: Notification, address: string | null, signal: AbortSignal): Promise<string | null>;
  /** Shows a typing indicator for a few seconds. Missing: unsupported, or turned off. */
  typing?(address: string | null, signal: AbortSignal): Promise<void>;
}

/** A notification as JSON, for webhooks and for the stdin of commands. */
export function notificationPayload(notification: Notification, address: string | null): string {
  const { kind, at, ...rest } = notification;
  const { label, summary, error, text } = rest;
  return JSON.stringify({
    type: `task.${kind}`,
    timestamp: new Date(at).toISOString(),
    data: {
      ...rest,
      label: boundText(label),
      summary: boundText(summary),
      error: error === null ? null : boundText(error),
      text: boundText(text),
      address,
    },
  });
}

/** Truncates a text to the length that channels get. */
export function boundText(text: string): string {
  return truncate(text, defaults.channelTextChars);
}
