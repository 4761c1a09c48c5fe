import { defaults } from "../defaults.js";
import { isTaskEnded, type TaskRecord } from "../model/task.js";
import type { TaskFinish, TaskInputEvent } from "./transition.js";

/** What is known of the run or the session that does the work of a task. */
export type WorkStatus =
  /** `startedAt`: when it began, if it has; `activeAt`: when it was last heard of. */
  | { readonly state: "alive"; readonly activeAt: number | null; readonly startedAt?: number | null }
  | { readonly state: "ended"; readonly finish: TaskFinish }
  | { readonly state: "gone" }
  /** Nobody here can tell: it is elsewhere, or there is nothing to look at. Never taken for gone. */
  | { readonly state: "unknown" };

/** What is to be done about a task, as it was when it was looked at. */
export type MaintenanceAction = { readonly taskId: string; readonly version: number } & (
  | { readonly act: "tell"; readonly happening: TaskInputEvent }
  /** It has ended, and nobody said when it may be forgotten. */
  | { readonly act: "date"; readonly cleanupAfter: number }
  | { readonly act: "forget" }
);

/**
 * What the sweep does about a task now, if anything. The same whether it is done or only shown. `watchedSince`: what was
 * not heard of before it is not held against anybody.
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
    return event === null ? null : { taskId, version, act: "tell", happening: event };
  }
  if (cleanupAfter === null)
    return { taskId, version, act: "date", cleanupAfter: (task.endedAt ?? now) + defaults.taskKeptMs };
  return isDeletable(task, now) ? { taskId, version, act: "forget" } : null;
}

/** A message that is still to be sent needs its task. */
function isDeletable({ cleanupAfter, delivery }: TaskRecord, now: number): boolean {
  return cleanupAfter !== null && cleanupAfter < now && delivery !== "pending";
}

/** Who promised to be heard of and is not is gone; who did not promise may be at work. */
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
        return { type: "start", at: startedAt, overheard: true };
      if (missingSince !== null) return { type: "found", at: now };
      return activeAt === null ? null : activityEvent(task, activeAt, now, watchedSince);
    }
    case "gone":
      if (missingSince === null) return { type: "missing", at: now };
      return now - Math.max(missingSince, watchedSince) >= defaults.taskLostMs
        ? lostFinish(missingSince, now)
        : null;
  }
}

/** What is heard of work that goes on: that it does, or that it has not been for long. */
function activityEvent(
  { status, lastEventAt, stalledAt }: TaskRecord,
  activeAt: number,
  now: number,
  watchedSince: number,
): TaskInputEvent | null {
  // Not for every word it says: often enough that nobody takes it for stuck.
  const news = activeAt - lastEventAt;
  if (stalledAt === null ? news >= defaults.taskStallMs / 2 : news > 0)
    return { type: "heartbeat", at: activeAt };
  const silentMs = now - Math.max(activeAt, lastEventAt, watchedSince);
  const stalls = status === "running" && stalledAt === null && silentMs >= defaults.taskStallMs;
  return stalls ? { type: "stall", at: now, silentMs } : null;
}

function lostFinish(missingSince: number, at: number): TaskFinish {
  const minutes = Math.round((at - missingSince) / 60_000);
  return {
    type: "finish",
    at,
    status: "lost",
    outcome: null,
    summary: null,
    error: `nobody has been known to work on it for ${minutes} min`,
    actor: "maintenance",
    startedAt: null,
  };
}

/** A measure, for a person. */
export function describeAction(action: MaintenanceAction): {
  readonly taskId: string;
  readonly act: MaintenanceAction["act"];
  readonly detail: string;
} {
  const { taskId, act } = action;
  if (act === "forget") return { taskId, act, detail: "it ended long ago, and is forgotten" };
  if (act === "date")
    return {
      taskId,
      act,
      detail: `it may be forgotten after ${new Date(action.cleanupAfter).toISOString()}`,
    };
  return { taskId, act, detail: describeEvent(action.happening) };
}

function describeEvent(event: TaskInputEvent): string {
  switch (event.type) {
    case "start":
      return "it has begun";
    case "finish":
      return `it has ended: ${event.status}${event.error === null ? "" : ` (${event.error})`}`;
    case "missing":
      return "nobody is known to do it; it is lost if that stays so";
    case "found":
      return "somebody does it after all";
    case "stall":
      return `it has not been heard of for ${Math.round(event.silentMs / 60_000)} min`;
    case "heartbeat":
      return "it is at work";
    case "progress":
    case "policy":
    case "link":
      return event.type;
  }
}
