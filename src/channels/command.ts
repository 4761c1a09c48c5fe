import type { Notification } from "../model/outbox.js";
import type { Channel } from "./channel.js";
import type { ChannelEntryOf } from "../config/channels.js";
import { boundText, notificationPayload } from "./payload.js";
import { runChannelProgram, type Spawner } from "./run-program.js";

/** Passes the notification on stdin as JSON and in the environment, never on the command line. */
export function commandChannel(name: string, entry: ChannelEntryOf<"command">, spawner: Spawner): Channel {
  return {
    deliver: (notification, address, signal) =>
      runChannelProgram(
        spawner,
        {
          name,
          argv: entry.argv,
          env: notificationVariables(notification, address),
          input: `${notificationPayload(notification, address)}\n`,
          timeoutMs: entry["timeout-ms"],
        },
        signal,
      ),
  };
}

/** Unknown values are empty. */
export function notificationVariables(
  notification: Notification,
  address: string | null,
): Readonly<Record<string, string>> {
  const { id, taskId, kind, status, outcome, label, runtime, summary, error, text } = notification;
  const values = {
    ...{ ID: id, TASK_ID: taskId, KIND: kind, STATUS: status, OUTCOME: outcome, LABEL: label },
    ...{ RUNTIME: runtime, SUMMARY: summary, ERROR: error, TEXT: text, ADDRESS: address },
  };
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      `HOLDFAST_NOTIFICATION_${name}`,
      boundText(value ?? "").replaceAll("\0", "\uFFFD"),
    ]),
  );
}
