import { defaults } from "../defaults.js";
import type { Notification } from "../tasks/notification.js";
import { cut } from "../tasks/texts.js";

/** A notification as programs read it: on a webhook, and on a command's stdin. */
export function payloadOf(notification: Notification, address: string | null): string {
  const { kind, at, ...rest } = notification;
  const { label, summary, error, text } = rest;
  return JSON.stringify({
    type: `task.${kind}`,
    timestamp: new Date(at).toISOString(),
    data: {
      ...rest,
      label: bounded(label),
      summary: bounded(summary),
      error: error === null ? null : bounded(error),
      text: bounded(text),
      address,
    },
  });
}

/** Each text of a notification, as it is handed on. */
export function bounded(text: string): string {
  return cut(text, defaults.channelTextChars);
}
