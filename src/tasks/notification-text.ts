import { defaults } from "../defaults.js";
import { isTaskEnded, type TaskRecord } from "../model/task.js";
import type { Notification } from "../model/outbox.js";
import { singleLine, multiLine } from "../text/truncate.js";

/** What a message about a change is about. */
export type NoticeChange =
  | { readonly type: "started" }
  | { readonly type: "progress" }
  | { readonly type: "stalled"; readonly silentMs: number };

/** Of a command's output, in a message. */
const COMMAND_OUTPUT_LINES = 3;

export function endNotificationId(taskId: string): string {
  return `task-terminal:${taskId}`;
}

/** How a task has ended, for its requester. */
export function endNotification(task: TaskRecord): Notification {
  const { taskId, summary, lastEventAt } = task;
  return createNotification(
    task,
    endNotificationId(taskId),
    lastEventAt,
    summary ?? "",
    notificationText(task, null),
  );
}

/** A change of a task, under the number of its event. */
export function stateNotification(
  task: TaskRecord,
  seq: number,
  at: number,
  change: NoticeChange,
): Notification {
  const id = `task-state:${task.taskId}:${seq}`;
  return createNotification(task, id, at, task.progress ?? "", notificationText(task, change));
}

/** The same, by whoever cannot know whether it was told before. */
export function markRepeated(notification: Notification): Notification {
  return { ...notification, repeat: true, text: `(again) ${notification.text}` };
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

/** The message as a person reads it: which task, what became of it, and the result. Null: it is about the task's end. */
export function notificationText(task: TaskRecord, change: NoticeChange | null): string {
  const label = singleLine(task.label, defaults.taskLabelChars);
  const said = [verbText(task, change), resultText(task, change)].filter((part) => part !== "").join(": ");
  return `Task “${label}” ${said}`;
}

function verbText({ status, outcome }: TaskRecord, change: NoticeChange | null): string {
  if (change?.type === "started") return "has started";
  if (change?.type === "stalled")
    return `has made no progress for ${Math.max(1, Math.round(change.silentMs / 60_000))} min`;
  return outcome === "blocked" ? "is blocked" : STATUS_TEXTS[status];
}

function resultText({ error, summary, progress, runtime }: TaskRecord, change: NoticeChange | null): string {
  if (change !== null) return change.type === "started" ? "" : (progress ?? "");
  const said = runtime === "exec" ? lastLines(summary) : summary;
  const parts = [error, said].filter((part) => part !== null && part !== "");
  return multiLine(parts.join("\n"), defaults.taskNoticeChars);
}

/** What came of a command is the last it said; the rest is in the record. */
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
