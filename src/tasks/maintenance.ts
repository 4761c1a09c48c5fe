import { defaults } from "../defaults.js";
import { isEnded } from "../store/task-record.js";
import type { TaskRecord } from "../store/task-record.js";
import type { Finish, Happening } from "./transition.js";

/** What is known of the run or the session that does the work of a task. */
export type Backing =
  /** `startedAt`: when it began, if it has; `activeAt`: when it was last heard of. */
  | { readonly state: "alive"; readonly activeAt: number | null; readonly startedAt?: number | null }
  | { readonly state: "ended"; readonly finish: Finish }
  | { readonly state: "gone" }
  /** Nobody here can tell: it is elsewhere, or there is nothing to look at. Never taken for gone. */
  | { readonly state: "unknown" };

/** What is to be done about a task, as it was when it was looked at. */
export type Measure = { readonly taskId: string; readonly version: number } & (
  | { readonly act: "tell"; readonly happening: Happening }
  /** It has ended, and nobody said when it may be forgotten. */
  | { readonly act: "date"; readonly cleanupAfter: number }
  | { readonly act: "forget" }
);

/**
 * What the sweep does about a task now, if anything. The same whether it is done or only shown. `watchedSince`: what was
 * not heard of before it is not held against anybody.
 */
export function measure(
  task: TaskRecord,
  backing: Backing,
  now: number,
  watchedSince = -Infinity,
): Measure | null {
  const { taskId, version, cleanupAfter } = task;
  if (!isEnded(task.status)) {
    const happening = happeningOf(task, judged(task, backing, now), now, watchedSince);
    return happening === null ? null : { taskId, version, act: "tell", happening };
  }
  if (cleanupAfter === null)
    return { taskId, version, act: "date", cleanupAfter: (task.endedAt ?? now) + defaults.taskKeptMs };
  return isForgettable(task, now) ? { taskId, version, act: "forget" } : null;
}

/** A message that is still to be sent needs its task. */
function isForgettable({ cleanupAfter, delivery }: TaskRecord, now: number): boolean {
  return cleanupAfter !== null && cleanupAfter < now && delivery !== "pending";
}

/** Who promised to be heard of and is not is gone; who did not promise may be at work. */
function judged({ heartbeatMs, lastEventAt }: TaskRecord, backing: Backing, now: number): Backing {
  if (backing.state !== "unknown" || heartbeatMs === null) return backing;
  return now - lastEventAt > heartbeatMs ? { state: "gone" } : { state: "alive", activeAt: null };
}

function happeningOf(
  task: TaskRecord,
  backing: Backing,
  now: number,
  watchedSince: number,
): Happening | null {
  const { missingSince } = task;
  switch (backing.state) {
    case "unknown":
      return null;
    case "ended":
      return backing.finish;
    case "alive": {
      const { activeAt, startedAt = null } = backing;
      if (task.status === "queued" && startedAt !== null)
        return { type: "start", at: startedAt, overheard: true };
      if (missingSince !== null) return { type: "found", at: now };
      return activeAt === null ? null : liveliness(task, activeAt, now, watchedSince);
    }
    case "gone":
      if (missingSince === null) return { type: "missing", at: now };
      return now - Math.max(missingSince, watchedSince) >= defaults.taskLostMs
        ? lost(missingSince, now)
        : null;
  }
}

/** What is heard of work that goes on: that it does, or that it has not been for long. */
function liveliness(
  { status, lastEventAt, stalledAt }: TaskRecord,
  activeAt: number,
  now: number,
  watchedSince: number,
): Happening | null {
  // Not for every word it says: often enough that nobody takes it for stuck.
  const news = activeAt - lastEventAt;
  if (stalledAt === null ? news >= defaults.taskStallMs / 2 : news > 0)
    return { type: "heartbeat", at: activeAt };
  const silentMs = now - Math.max(activeAt, lastEventAt, watchedSince);
  const stalls = status === "running" && stalledAt === null && silentMs >= defaults.taskStallMs;
  return stalls ? { type: "stall", at: now, silentMs } : null;
}

function lost(missingSince: number, at: number): Finish {
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
