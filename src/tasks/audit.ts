import { defaults } from "../defaults.js";
import { isTaskEnded, type TaskRecord } from "../model/task.js";

export const AUDIT_CODES = [
  "stale_queued",
  "stale_running",
  "lost",
  "delivery_failed",
  "missing_cleanup",
  "inconsistent_timestamps",
  "not_restored",
] as const;
type AuditCode = (typeof AUDIT_CODES)[number];

export interface AuditFinding {
  readonly code: AuditCode;
  readonly taskId: string;
  /** One sentence for the operator. */
  readonly detail: string;
}

/** A larger difference between the clocks of hosts is a fault. */
const MAX_CLOCK_SKEW_MS = 60_000;

/** The problems of one task that an operator should know. */
export function auditTask(task: TaskRecord, now: number): readonly AuditFinding[] {
  const checks: readonly (readonly [AuditCode, string | null])[] = [
    ["stale_queued", staleQueued(task, now)],
    ["stale_running", staleRunning(task, now)],
    ["lost", task.status === "lost" ? (task.error ?? "how it ended is not known") : null],
    ["delivery_failed", undeliveredNotice(task)],
    [
      "missing_cleanup",
      isTaskEnded(task.status) && task.cleanupAfter === null
        ? "it has ended, but has no time after which it may be deleted"
        : null,
    ],
    ["inconsistent_timestamps", inconsistentTimestamps(task, now)],
  ];
  return checks.flatMap(([code, detail]) => (detail === null ? [] : [{ code, taskId: task.taskId, detail }]));
}

function staleQueued({ status, lastEventAt }: TaskRecord, now: number): string | null {
  return status === "queued" && now - lastEventAt >= defaults.taskStaleQueuedMs
    ? `it has been queued for ${minutes(now - lastEventAt)} min`
    : null;
}

function staleRunning({ status, lastEventAt }: TaskRecord, now: number): string | null {
  return status === "running" && now - lastEventAt >= defaults.taskStaleRunningMs
    ? `it has had no event for ${minutes(now - lastEventAt)} min`
    : null;
}

function undeliveredNotice({ delivery }: TaskRecord): string | null {
  if (delivery === "failed") return "the notification of its end could not be delivered";
  return delivery === "parent_missing" ? "the session to be notified of its end is gone" : null;
}

function inconsistentTimestamps(task: TaskRecord, now: number): string | null {
  const { createdAt, startedAt, endedAt, lastEventAt } = task;
  const order = [createdAt, startedAt, endedAt].filter((at) => at !== null);
  if (order.some((at, index) => at < (order[index - 1] ?? at)))
    return "its times of creation, start and end are out of order";
  if (lastEventAt < createdAt) return "its last event is older than its creation";
  const latest = Math.max(lastEventAt, ...order);
  return latest > now + MAX_CLOCK_SKEW_MS
    ? `its times are ${minutes(latest - now)} min ahead of this clock`
    : null;
}

function minutes(ms: number): number {
  return Math.floor(ms / 60_000);
}
