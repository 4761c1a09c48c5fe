import { defaults } from "../defaults.js";
import { BadInput } from "../errors.js";
import { newTaskId } from "../model/ids.js";
import type { NotificationTarget } from "../model/outbox.js";
import {
  type ChatOrigin,
  isTaskEnded,
  type NotifyPolicy,
  type TaskRecord,
  type TaskRuntime,
  type TaskStatus,
} from "../model/task.js";
import type { NewTask, TaskStore } from "../store/tasks/contract.js";
import { multiLine, singleLine } from "../text/truncate.js";
import { expectedDelivery, type RejectReason, type TaskInputEvent, transition } from "./transition.js";

/** The requester of an agent or an external program waits for its result; a command in the background may run unnoticed. */
const policyByRuntime: Readonly<Record<TaskRuntime, NotifyPolicy>> = {
  acp: "done_only",
  subagent: "done_only",
  external: "done_only",
  exec: "silent",
};

export function defaultNotifyPolicy(runtime: TaskRuntime): NotifyPolicy {
  return policyByRuntime[runtime];
}

/** A task as it is known before its work starts. */
export interface TaskInput {
  readonly runtime: TaskRuntime;
  /** Unique key of the work (see `taskKeyOfRun` and its neighbours); null: none. */
  readonly key: string | null;
  /** Default: the first line of the text. */
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
  /** Default: none. */
  readonly targets?: readonly NotificationTarget[];
  /** Default: unknown. */
  readonly origin?: ChatOrigin | null;
  readonly heartbeatMs?: number | undefined;
}

export function newTask(input: TaskInput, now: number): NewTask {
  const { runtime, policy = defaultNotifyPolicy(runtime), targets = [], heartbeatMs = null } = input;
  if (heartbeatMs !== null && !(heartbeatMs >= 1 && heartbeatMs <= defaults.taskKeptMs))
    throw new BadInput("heartbeatMs", "the heartbeat of a task must be between 1 ms and one week");
  const text = multiLine(input.text, defaults.taskTextChars);
  const named = singleLine(input.label ?? text.split("\n", 1)[0] ?? "", defaults.taskLabelChars);
  // A prompt may consist of invisible characters only.
  const label = named === "" && runtime !== "external" ? runtime : named;
  if (label === "") throw new BadInput("label", "a task needs a label or a text; no task was created");
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
    origin: input.origin ?? null,
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

/** Keys are unique, so a run or turn has one task at most. */
export function taskKeyOfRun(runId: string): string {
  return `run:${runId}`;
}

export function taskKeyOfTurn(turnId: string): string {
  return `turn:${turnId}`;
}

/** A key that a caller chose, in a namespace of its own. `sessionId` null: the operator. */
export function taskKeyOfCaller(sessionId: string | null, name: string): string {
  if (name === "" || name.length > defaults.taskKeyChars)
    throw new BadInput(
      "key",
      `the key of a task has 1 to ${defaults.taskKeyChars} characters; no task was created`,
    );
  return `caller:${sessionId ?? "operator"}:${name}`;
}

/** The result of an event. */
export type ApplyResult =
  | { readonly kind: "changed" | "same"; readonly task: TaskRecord }
  /** The event came too late or too early. The task's history records that. */
  | { readonly kind: "refused"; readonly task: TaskRecord; readonly why: RejectReason };

interface TasksOptions {
  readonly store: Pick<TaskStore, "insertTask" | "commitTask" | "getTask">;
  /** Wall-clock milliseconds. */
  readonly now?: () => number;
  /** Called when a notification was added to the outbox. */
  readonly onNotice?: () => void;
  readonly onEnd?: (status: TaskStatus) => void;
}

/** The registry of background work. */
export class Tasks {
  readonly #store: TasksOptions["store"];
  readonly #now: () => number;
  readonly #onNotice: () => void;
  readonly #onEnd: (status: TaskStatus) => void;

  constructor({ store, now = Date.now, onNotice = () => {}, onEnd = () => {} }: TasksOptions) {
    this.#store = store;
    this.#now = now;
    this.#onNotice = onNotice;
    this.#onEnd = onEnd;
  }

  /** Call before the work starts. Returns the existing task, unchanged, if one has the key. */
  create(input: TaskInput): Promise<{ readonly task: TaskRecord; readonly created: boolean }> {
    const task = newTask(input, this.#now());
    const { runtime, policy } = task;
    return this.#store.insertTask(task, [{ type: "created", at: task.createdAt, data: { runtime, policy } }]);
  }

  /** Null: there is no such task. `version`: apply only if the task has this version. */
  async apply(taskId: string, event: TaskInputEvent, version?: number): Promise<ApplyResult | null> {
    for (;;) {
      const task = await this.#store.getTask(taskId);
      if (task === null) return null;
      if (version !== undefined && task.version !== version) return { kind: "same", task };
      const step = transition(task, event);
      if (step.kind === "same") return { kind: "same", task };
      const after = await this.#store.commitTask(taskId, task.version, step.change);
      // The task changed in the meantime, so the event may have another effect.
      if (after === null) continue;
      if ((step.change.notices ?? []).length > 0) this.#onNotice();
      if (!isTaskEnded(task.status) && isTaskEnded(after.status)) this.#onEnd(after.status);
      return step.kind === "refused"
        ? { kind: "refused", task: after, why: step.why }
        : { kind: "changed", task: after };
    }
  }
}
