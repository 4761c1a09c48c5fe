import { defaults } from "../defaults.js";
import { isTaskEnded, type TaskRecord } from "../model/task.js";
import type { Notification, NotificationTarget } from "../model/outbox.js";
import { singleLine, multiLine } from "../text/truncate.js";

/** The change that a notification is about. */
export type NoticeChange =
  | { readonly type: "started" }
  | { readonly type: "progress" }
  | { readonly type: "stalled"; readonly silentMs: number };

/** Lines of a command's output in a notification. */
const COMMAND_OUTPUT_LINES = 3;

const END_PREFIX = "task-terminal:";

/** The task whose end a notification id names. Null: it names a change. */
export function endedTaskOf(notificationId: string): string | null {
  return notificationId.startsWith(END_PREFIX) ? notificationId.slice(END_PREFIX.length) : null;
}

/** The notification that a task has ended. */
export function endNotification(task: TaskRecord): Notification {
  const { taskId, summary, lastEventAt } = task;
  const id = `${END_PREFIX}${taskId}`;
  return createNotification(task, id, lastEventAt, summary ?? "", notificationText(task, null));
}

/** The notification that a task changed. `seq`: the number of the event, which makes the id unique. */
export function stateNotification(
  task: TaskRecord,
  seq: number,
  at: number,
  change: NoticeChange,
): Notification {
  const id = `task-state:${task.taskId}:${seq}`;
  return createNotification(task, id, at, task.progress ?? "", notificationText(task, change));
}

/** Marks a notification that may have arrived before. */
export function markRepeated(notification: Notification): Notification {
  return { ...notification, repeat: true, text: `(again) ${notification.text}` };
}

/** The notification for a session whose user is notified too: its agent must not repeat the result. */
export function withUserNotified(
  notification: Notification,
  targets: readonly NotificationTarget[],
): Notification {
  const names = targets.flatMap((target) => (target.kind === "channel" ? [target.channel] : []));
  if (names.length === 0) return notification;
  const channels = [...new Set(names)].join(", ");
  return {
    ...notification,
    text: `${notification.text}\n(The user is notified of this through ${channels}.)`,
  };
}

const STATUS_TEXTS = {
  queued: "is queued",
  running: "is running",
  succeeded: "succeeded",
  failed: "failed",
  timed_out: "timed out",
  cancelled: "was cancelled",
  lost: "was lost",
} as const;

/** The text for people: the task, its state and its result. `change` null: the task has ended. */
export function notificationText(task: TaskRecord, change: NoticeChange | null): string {
  const label = singleLine(task.label, defaults.taskLabelChars);
  const parts = [verbText(task, change), resultText(task, change)].filter((part) => part !== "");
  return `Task “${label}” ${parts.join(": ")}`;
}

function verbText({ status, outcome }: TaskRecord, change: NoticeChange | null): string {
  if (change?.type === "started") return "has started";
  if (change?.type === "stalled")
    return `has made no progress for ${Math.max(1, Math.round(change.silentMs / 60_000))} min`;
  return outcome === "blocked" ? "is blocked" : STATUS_TEXTS[status];
}

function resultText({ error, summary, progress, runtime }: TaskRecord, change: NoticeChange | null): string {
  if (change !== null) return change.type === "started" ? "" : (progress ?? "");
  const result = runtime === "exec" ? lastLines(summary) : summary;
  const parts = [error, result].filter((part) => part !== null && part !== "");
  return multiLine(parts.join("\n"), defaults.taskNoticeChars);
}

/** A command prints its result last; the record has the rest. */
function lastLines(summary: string | null): string | null {
  const lines = summary?.split("\n").filter((line) => line.trim() !== "") ?? [];
  return lines.length === 0 ? null : lines.slice(-COMMAND_OUTPUT_LINES).join("\n");
}

function createNotification(
  task: TaskRecord,
  id: string,
  at: number,
  summary: string,
  text: string,
): Notification {
  const { taskId, status, outcome, label, runtime, error } = task;
  const kind = isTaskEnded(status) ? "terminal" : "state";
  return { id, taskId, kind, status, outcome, label, runtime, summary, error, at, text };
}
