import { defaults } from "../defaults.js";
import { isTaskEnded } from "../model/task.js";
import type { TaskRecord } from "../model/task.js";

export const AUDIT_CODES = [
  "stale_queued",
  "stale_running",
  "lost",
  "delivery_failed",
  "missing_cleanup",
  "inconsistent_timestamps",
  "not_restored",
] as const;
export type AuditCode = (typeof AUDIT_CODES)[number];

export interface AuditFinding {
  readonly code: AuditCode;
  readonly taskId: string;
  /** One sentence for a person. */
  readonly detail: string;
}

/** Clocks of hosts differ by less, unless something is wrong with one. */
const MAX_CLOCK_SKEW_MS = 60_000;

/** What an operator should look at. */
export function auditTask(task: TaskRecord, now: number): readonly AuditFinding[] {
  const checks: readonly (readonly [AuditCode, string | null])[] = [
    ["stale_queued", staleQueued(task, now)],
    ["stale_running", staleRunning(task, now)],
    ["lost", task.status === "lost" ? (task.error ?? "what became of it is not known") : null],
    ["delivery_failed", undeliveredNotice(task)],
    [
      "missing_cleanup",
      isTaskEnded(task.status) && task.cleanupAfter === null
        ? "it has ended, and nobody said when it may be forgotten"
        : null,
    ],
    ["inconsistent_timestamps", inconsistentTimestamps(task, now)],
  ];
  return checks.flatMap(([code, detail]) => (detail === null ? [] : [{ code, taskId: task.taskId, detail }]));
}

function staleQueued({ status, lastEventAt }: TaskRecord, now: number): string | null {
  return status === "queued" && now - lastEventAt >= defaults.taskStaleQueuedMs
    ? `it has been waiting to begin for ${minutes(now - lastEventAt)} min`
    : null;
}

function staleRunning({ status, lastEventAt }: TaskRecord, now: number): string | null {
  return status === "running" && now - lastEventAt >= defaults.taskStaleRunningMs
    ? `nothing has been heard of it for ${minutes(now - lastEventAt)} min`
    : null;
}

function undeliveredNotice({ delivery }: TaskRecord): string | null {
  if (delivery === "failed") return "how it ended could not be delivered";
  return delivery === "parent_missing" ? "the session that was to be told how it ended is gone" : null;
}

function inconsistentTimestamps(task: TaskRecord, now: number): string | null {
  const { createdAt, startedAt, endedAt, lastEventAt } = task;
  const order = [createdAt, startedAt, endedAt].filter((at) => at !== null);
  if (order.some((at, index) => at < (order[index - 1] ?? at)))
    return "it was created, started and ended in another order";
  if (lastEventAt < createdAt) return "it was heard of before it was created";
  const latest = Math.max(lastEventAt, ...order);
  return latest > now + MAX_CLOCK_SKEW_MS ? `it is ${minutes(latest - now)} min ahead of this clock` : null;
}

function minutes(ms: number): number {
  return Math.floor(ms / 60_000);
}
