import { defaults } from "../defaults.js";
import { isTaskEnded, type TaskRecord } from "../model/task.js";
import type { TaskFinish, TaskInputEvent } from "./transition.js";

/** The state of the run or turn that does the work of a task. */
export type WorkStatus =
  /** `startedAt` null: not started; `activeAt`: the time of the last activity. */
  | { readonly state: "alive"; readonly activeAt: number | null; readonly startedAt?: number | null }
  | { readonly state: "ended"; readonly finish: TaskFinish }
  | { readonly state: "gone" }
  /** It cannot be probed from here. Never treated as gone. */
  | { readonly state: "unknown" };

/** A change to a task. It applies only to this version of the record. */
export type MaintenanceAction = { readonly taskId: string; readonly version: number } & (
  | { readonly act: "tell"; readonly event: TaskInputEvent }
  /** The task has ended without a time of deletion. */
  | { readonly act: "date"; readonly cleanupAfter: number }
  | { readonly act: "forget" }
);

/**
 * The change that the sweep makes to a task now; null: none. `watchedSince`: silence before this time does not count,
 * because nothing could be observed.
 */
export function planMaintenance(
  task: TaskRecord,
  work: WorkStatus,
  now: number,
  watchedSince = -Infinity,
): MaintenanceAction | null {
  const { taskId, version, cleanupAfter } = task;
  if (!isTaskEnded(task.status)) {
    const event = eventFor(task, applyHeartbeatLimit(task, work, now), now, watchedSince);
    return event === null ? null : { taskId, version, act: "tell", event };
  }
  if (cleanupAfter === null)
    return { taskId, version, act: "date", cleanupAfter: (task.endedAt ?? now) + defaults.taskKeptMs };
  // A pending notification still needs its task.
  return cleanupAfter < now && task.delivery !== "pending" ? { taskId, version, act: "forget" } : null;
}

/** Work that promised a heartbeat and missed it is gone; other unknown work may be alive. */
function applyHeartbeatLimit(
  { heartbeatMs, lastEventAt }: TaskRecord,
  work: WorkStatus,
  now: number,
): WorkStatus {
  if (work.state !== "unknown" || heartbeatMs === null) return work;
  return now - lastEventAt > heartbeatMs ? { state: "gone" } : { state: "alive", activeAt: null };
}

function eventFor(
  task: TaskRecord,
  work: WorkStatus,
  now: number,
  watchedSince: number,
): TaskInputEvent | null {
  const { missingSince } = task;
  switch (work.state) {
    case "unknown":
      return null;
    case "ended":
      return work.finish;
    case "alive": {
      const { activeAt, startedAt = null } = work;
      if (task.status === "queued" && startedAt !== null)
        return { type: "start", at: startedAt, observed: true };
      if (missingSince !== null) return { type: "found", at: now };
      return activeAt === null ? null : activityEvent(task, activeAt, now, watchedSince);
    }
    case "gone":
      // A task is recorded before its work.
      if (task.status === "queued" && Math.abs(now - task.createdAt) < defaults.taskStartMs) return null;
      if (missingSince === null) return { type: "missing", at: now };
      return now - Math.max(missingSince, watchedSince) >= defaults.taskLostMs
        ? lostFinish(missingSince, now)
        : null;
  }
}

/** A heartbeat, or a stall after a long silence. */
function activityEvent(
  { status, lastEventAt, stalledAt }: TaskRecord,
  activeAt: number,
  now: number,
  watchedSince: number,
): TaskInputEvent | null {
  // Not for every activity: often enough that the task does not look stalled.
  const newerByMs = activeAt - lastEventAt;
  if (stalledAt === null ? newerByMs >= defaults.taskStallMs / 2 : newerByMs > 0)
    return { type: "heartbeat", at: activeAt };
  const silentMs = now - Math.max(activeAt, lastEventAt, watchedSince);
  const stalled = status === "running" && stalledAt === null && silentMs >= defaults.taskStallMs;
  return stalled ? { type: "stall", at: now, silentMs } : null;
}

function lostFinish(missingSince: number, at: number): TaskFinish {
  const minutes = Math.round((at - missingSince) / 60_000);
  return {
    type: "finish",
    at,
    status: "lost",
    outcome: null,
    summary: null,
    error: `nothing has worked on it for ${minutes} min`,
    actor: "maintenance",
    startedAt: null,
  };
}

/** An action for people. */
export function describeAction(action: MaintenanceAction): {
  readonly taskId: string;
  readonly act: MaintenanceAction["act"];
  readonly detail: string;
} {
  const { taskId, act } = action;
  if (act === "forget") return { taskId, act, detail: "it ended long ago; its record is deleted" };
  if (act === "date")
    return {
      taskId,
      act,
      detail: `its record may be deleted after ${new Date(action.cleanupAfter).toISOString()}`,
    };
  return { taskId, act, detail: describeEvent(action.event) };
}

function describeEvent(event: TaskInputEvent): string {
  switch (event.type) {
    case "start":
      return "it has started";
    case "finish":
      return `it has ended: ${event.status}${event.error === null ? "" : ` (${event.error})`}`;
    case "missing":
      return "its work is missing; the task is lost if that lasts";
    case "found":
      return "its work was found again";
    case "stall":
      return `it has made no progress for ${Math.round(event.silentMs / 60_000)} min`;
    case "heartbeat":
      return "it is active";
    case "progress":
    case "policy":
    case "link":
      return event.type;
  }
}
