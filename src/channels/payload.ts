import { defaults } from "../defaults.js";
import type { Notification } from "../tasks/delivery.js";
import { truncate } from "../text/truncate.js";

/** A notification as programs read it: on a webhook, and on a command's stdin. */
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

/** Each text of a notification, as it is handed on. */
export function boundText(text: string): string {
  return truncate(text, defaults.channelTextChars);
}
