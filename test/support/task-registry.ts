import { join } from "node:path";
import type { TaskRecord } from "../../src/model/task.js";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import type { Store } from "../../src/store/store.js";
import { type ApplyResult, type TaskInput, Tasks } from "../../src/tasks/tasks.js";
import type { TaskFinish } from "../../src/tasks/transition.js";
import { PARENT } from "./store/task-samples.js";
import { temporaryDirectory } from "./temporary-directory.js";

/** A registry on a store of its own. */
export interface TaskRegistry extends AsyncDisposable {
  readonly path: string;
  readonly store: Store;
  readonly tasks: Tasks;
  /** The number of times that a notification was added. */
  hintCount(): number;
  /** Sets the wall clock. */
  setNow(now: number): void;
  startTask(input?: Partial<TaskInput>): Promise<TaskRecord>;
  finishTask(input?: Partial<TaskInput>, finish?: Partial<TaskFinish>): Promise<TaskRecord>;
}

export const SUCCEEDED_FINISH: TaskFinish = {
  type: "finish",
  at: 0,
  status: "succeeded",
  outcome: "succeeded",
  summary: "all built",
  error: null,
  actor: "",
  startedAt: null,
};

export async function openTaskRegistry(): Promise<TaskRegistry> {
  const directory = await temporaryDirectory();
  const path = join(directory.path, "store.sqlite");
  const store = await openSqliteStore({ path });
  let hints = 0;
  let now = Date.now();
  const tasks = new Tasks({ store, now: () => now, onNotice: () => (hints += 1) });
  const begun: TaskRegistry["startTask"] = async (input = {}) => {
    const given = { runtime: "acp", key: null, text: "build", targets: [PARENT], ...input } as const;
    const { task } = await tasks.create(given);
    return requireApplied(await tasks.apply(task.taskId, { type: "start", at: now }));
  };
  return {
    path,
    store,
    tasks,
    startTask: begun,
    hintCount: () => hints,
    setNow: (to) => (now = to),
    finishTask: async (input, finish) => {
      const { taskId } = await begun(input);
      return requireApplied(await tasks.apply(taskId, { ...SUCCEEDED_FINISH, at: now, ...finish }));
    },
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

function requireApplied(result: ApplyResult | null): TaskRecord {
  if (result?.kind !== "changed") throw new Error(`the event was ${result?.kind ?? "for a missing task"}`);
  return result.task;
}
