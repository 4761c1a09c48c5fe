import { isTaskEnded, type TaskRecord, type TaskStatus } from "../model/task.js";
import type { TaskStore } from "../store/tasks/store.js";
import { newTask, type TaskInput } from "./new-task.js";
import { transition, type TaskInputEvent, type RejectReason } from "./transition.js";

/** The result of applying an event to a task. */
export type ApplyResult =
  | { readonly kind: "changed" | "same"; readonly task: TaskRecord }
  /** The event came too late or too early. The task's history records that. */
  | { readonly kind: "refused"; readonly task: TaskRecord; readonly why: RejectReason };

export interface TasksOptions {
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
