import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";
import { newTaskId } from "../model/ids.js";
import type { NotifyPolicy, TaskRuntime } from "../model/task.js";
import type { NotificationTarget } from "../model/outbox.js";
import type { NewTask } from "../store/tasks/store.js";
import { multiLine, singleLine } from "../text/truncate.js";
import { expectedDelivery } from "./transition.js";

/** Who asked an agent or another program for something waits for it; who put a command in the background need not. */
const policyByRuntime: Readonly<Record<TaskRuntime, NotifyPolicy>> = {
  acp: "done_only",
  subagent: "done_only",
  external: "done_only",
  exec: "silent",
};

export function defaultNotifyPolicy(runtime: TaskRuntime): NotifyPolicy {
  return policyByRuntime[runtime];
}

/** What is known of work before it begins. */
export interface TaskInput {
  readonly runtime: TaskRuntime;
  /** One of `key.ts`; null: it is like no other. */
  readonly key: string | null;
  /** What it is called; otherwise as the first line of what was asked for. */
  readonly label?: string | undefined;
  readonly text: string;
  readonly kind?: string | undefined;
  readonly ownerSessionId?: string | null;
  readonly childSessionId?: string | null;
  readonly parentTaskId?: string | null;
  readonly agentId?: string | null;
  readonly runId?: string | null;
  readonly turnId?: string | null;
  readonly policy?: NotifyPolicy | undefined;
  /** Who is to be told; nobody, unless said so. */
  readonly targets?: readonly NotificationTarget[];
  readonly heartbeatMs?: number | undefined;
}

export function newTask(input: TaskInput, now: number): NewTask {
  const { runtime, policy = defaultNotifyPolicy(runtime), targets = [], heartbeatMs = null } = input;
  if (heartbeatMs !== null && !(heartbeatMs >= 1 && heartbeatMs <= defaults.taskKeptMs))
    throw new BadInput("heartbeatMs", "a task's heartbeat is a number of milliseconds, a week at most");
  const text = multiLine(input.text, defaults.taskTextChars);
  const named = singleLine(input.label ?? text.split("\n", 1)[0] ?? "", defaults.taskLabelChars);
  // A prompt of invisible characters is one all the same.
  const label = named === "" && runtime !== "external" ? runtime : named;
  if (label === "") throw new BadInput("label", "a task needs a label or a text; nothing was recorded");
  return {
    taskId: newTaskId(),
    key: input.key,
    runtime,
    kind: input.kind === undefined ? null : singleLine(input.kind, defaults.taskLabelChars),
    ownerSessionId: input.ownerSessionId ?? null,
    childSessionId: input.childSessionId ?? null,
    parentTaskId: input.parentTaskId ?? null,
    agentId: input.agentId ?? null,
    runId: input.runId ?? null,
    turnId: input.turnId ?? null,
    label,
    text,
    status: "queued",
    delivery: expectedDelivery({ policy, targets }),
    policy,
    targets,
    createdAt: now,
    startedAt: null,
    endedAt: null,
    lastEventAt: now,
    progress: null,
    summary: null,
    outcome: null,
    error: null,
    cleanupAfter: null,
    heartbeatMs: heartbeatMs === null ? null : Math.round(heartbeatMs),
    missingSince: null,
    stalledAt: null,
    noticedAt: null,
  };
}

/** What may have one task only. */
export function taskKeyOfRun(runId: string): string {
  return `run:${runId}`;
}

export function taskKeyOfTurn(turnId: string): string {
  return `turn:${turnId}`;
}

/** A name that means something to whoever gave it, and to nobody else. Null: an operator. */
export function taskKeyOfCaller(sessionId: string | null, name: string): string {
  if (name === "" || name.length > defaults.taskKeyChars)
    throw new BadInput(
      "key",
      `a task's key has 1 to ${defaults.taskKeyChars} characters; nothing was recorded`,
    );
  return `caller:${sessionId ?? "operator"}:${name}`;
}
