import { defaults } from "../defaults.js";
import type { Notification } from "../tasks/notification.js";

/** A notification as programs read it: on a webhook, and on a command's stdin. */
export function payloadOf(notification: Notification, address: string | null): string {
  const { kind, at, ...rest } = notification;
  const { label, summary, error, text } = rest;
  return JSON.stringify({
    type: `task.${kind}`,
    timestamp: new Date(at).toISOString(),
    data: {
      ...rest,
      label: cut(label),
      summary: cut(summary),
      error: error === null ? null : cut(error),
      text: cut(text),
      address,
    },
  });
}

/** At most so many characters, with `…` where something was cut, and no half of a pair. */
export function cut(text: string, chars: number = defaults.channelTextChars): string {
  if (text.length <= chars) return text;
  return `${text.slice(0, chars - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
