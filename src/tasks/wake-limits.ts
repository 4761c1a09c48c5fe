import { defaults } from "../defaults.js";
import type { TaskRecord } from "../model/task.js";
import { notificationText } from "./notification-text.js";
import type { TaskFinish } from "./transition.js";

/** The kind of a task that is a turn which the end of another task caused. */
export const WAKE_KIND = "wake";

interface WakeRequest {
  /** True if the session has an agent that can be started, and takes more than one prompt. */
  readonly hasAgent: boolean;
  /** The number of turns that the end of a task caused, among the ancestors of this task. */
  readonly depth: number;
  /** When the session's agent was woken in the past. */
  readonly wokenAt: readonly number[];
}

type WakeDecision =
  | { readonly wakes: true }
  | { readonly wakes: false; readonly why: "no-agent" | "depth" | "rate" };

const HOUR_MS = 3_600_000;

/** Decides whether the end of a task may wake an agent. It is limited, because a woken agent may start the same work again. */
export function decideWake(
  { hasAgent, depth, wokenAt }: WakeRequest,
  now: number,
  limits: Readonly<Record<"wakeDepth" | "wakesPerHour", number>> = defaults,
): WakeDecision {
  if (!hasAgent) return { wakes: false, why: "no-agent" };
  if (depth >= limits.wakeDepth) return { wakes: false, why: "depth" };
  const recent = wokenAt.filter((at) => at > now - HOUR_MS).length;
  return recent >= limits.wakesPerHour ? { wakes: false, why: "rate" } : { wakes: true };
}

/** Tasks that are followed to the first one. A longer chain counts as too deep. */
const MAX_ANCESTORS = 100;

/** Counts the turns among a task and its ancestors that the end of a task caused. */
export async function wakeDepth(
  getTask: (taskId: string) => Promise<TaskRecord | null>,
  taskId: string,
): Promise<number> {
  let depth = 0;
  let next: string | null = taskId;
  for (let at = 0; next !== null; at += 1) {
    if (at >= MAX_ANCESTORS) return Infinity;
    const task: TaskRecord | null = await getTask(next);
    if (task?.kind === WAKE_KIND) depth += 1;
    next = task?.parentTaskId ?? null;
  }
  return depth;
}

/**
 * The end of a turn, with the result of the task that caused it if the turn has no answer: the message about the turn is
 * the only one that the user gets about that task. Other ends are unchanged.
 */
export async function withUnansweredResult(
  store: { getTask(taskId: string): Promise<TaskRecord | null> },
  taskId: string,
  finish: TaskFinish,
): Promise<TaskFinish> {
  const { status, summary } = finish;
  if (status === "succeeded" && summary !== null && summary.trim() !== "") return finish;
  const turn = await store.getTask(taskId);
  if (turn?.kind !== WAKE_KIND || turn.parentTaskId === null) return finish;
  const cause = await store.getTask(turn.parentTaskId);
  return cause === null ? finish : { ...finish, summary: notificationText(cause, null) };
}
