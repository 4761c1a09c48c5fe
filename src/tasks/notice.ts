import { defaults } from "../defaults.js";
import { isEnded } from "../store/task-record.js";
import type { Notification, TaskRecord } from "../store/task-record.js";
import { oneLine, severalLines } from "./texts.js";

/** What a message about a change is about. */
export type Change =
  | { readonly type: "started" }
  | { readonly type: "progress" }
  | { readonly type: "stalled"; readonly silentMs: number };

/** Of a command's output, in a message. */
const COMMAND_LINES = 3;

export function terminalId(taskId: string): string {
  return `task-terminal:${taskId}`;
}

/** How a task has ended, for its requester. */
export function terminalNotice(task: TaskRecord): Notification {
  const { taskId, summary, lastEventAt } = task;
  return noticeOf(task, terminalId(taskId), lastEventAt, summary ?? "", noticeText(task, null));
}

/** A change of a task, under the number of its event. */
export function stateNotice(task: TaskRecord, seq: number, at: number, change: Change): Notification {
  const id = `task-state:${task.taskId}:${seq}`;
  return noticeOf(task, id, at, task.progress ?? "", noticeText(task, change));
}

/** The same, by whoever cannot know whether it was told before. */
export function repeated(notification: Notification): Notification {
  return { ...notification, repeat: true, text: `(again) ${notification.text}` };
}

const words = {
  queued: "is queued",
  running: "is running",
  succeeded: "succeeded",
  failed: "failed",
  timed_out: "timed out",
  cancelled: "was cancelled",
  lost: "was lost",
} as const;

/** The message as a person reads it: which task, what became of it, and the result. Null: it is about the task's end. */
export function noticeText(task: TaskRecord, change: Change | null): string {
  const label = oneLine(task.label, defaults.taskLabelChars);
  const said = [verb(task, change), result(task, change)].filter((part) => part !== "").join(": ");
  return `Task “${label}” ${said}`;
}

function verb({ status, outcome }: TaskRecord, change: Change | null): string {
  if (change?.type === "started") return "has started";
  if (change?.type === "stalled")
    return `has made no progress for ${Math.max(1, Math.round(change.silentMs / 60_000))} min`;
  return outcome === "blocked" ? "is blocked" : words[status];
}

function result({ error, summary, progress, runtime }: TaskRecord, change: Change | null): string {
  if (change !== null) return change.type === "started" ? "" : (progress ?? "");
  const said = runtime === "exec" ? lastOf(summary) : summary;
  const parts = [error, said].filter((part) => part !== null && part !== "");
  return severalLines(parts.join("\n"), defaults.taskNoticeChars);
}

/** What came of a command is the last it said; the rest is in the record. */
function lastOf(summary: string | null): string | null {
  const lines = summary?.split("\n").filter((line) => line.trim() !== "") ?? [];
  return lines.length === 0 ? null : lines.slice(-COMMAND_LINES).join("\n");
}

function noticeOf(task: TaskRecord, id: string, at: number, summary: string, text: string): Notification {
  const { taskId, status, outcome, label, runtime, error } = task;
  const kind = isEnded(status) ? "terminal" : "state";
  return { id, taskId, kind, status, outcome, label, runtime, summary, error, at, text };
}
