import { join } from "node:path";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import type { Store } from "../../src/store/store.js";
import type { TaskRecord } from "../../src/store/task-record.js";
import type { TaskInput } from "../../src/tasks/new-task.js";
import { Tasks, type Told } from "../../src/tasks/tasks.js";
import type { Finish } from "../../src/tasks/transition.js";
import { PARENT } from "../store/task-samples.js";
import { temporaryDirectory } from "../store/temporary-directory.js";

/** A registry on a store of its own. */
export interface TaskHouse extends AsyncDisposable {
  readonly path: string;
  readonly store: Store;
  readonly tasks: Tasks;
  /** How often there was something to send. */
  hints(): number;
  /** What the wall clock says from now on. */
  setNow(now: number): void;
  begun(input?: Partial<TaskInput>): Promise<TaskRecord>;
  ended(input?: Partial<TaskInput>, finish?: Partial<Finish>): Promise<TaskRecord>;
}

export const succeeded: Finish = {
  type: "finish",
  at: 0,
  status: "succeeded",
  outcome: "succeeded",
  summary: "all built",
  error: null,
  actor: "",
  startedAt: null,
};

export async function taskHouse(): Promise<TaskHouse> {
  const directory = await temporaryDirectory();
  const path = join(directory.path, "store.sqlite");
  const store = await openSqliteStore({ path });
  let hints = 0;
  let now = Date.now();
  const tasks = new Tasks({ store, now: () => now, onNotice: () => (hints += 1) });
  const begun: TaskHouse["begun"] = async (input = {}) => {
    const given = { runtime: "acp", key: null, text: "build", targets: [PARENT], ...input } as const;
    const { task } = await tasks.create(given);
    return sureOf(await tasks.tell(task.taskId, { type: "start", at: now }));
  };
  return {
    path,
    store,
    tasks,
    begun,
    hints: () => hints,
    setNow: (to) => (now = to),
    ended: async (input, finish) => {
      const { taskId } = await begun(input);
      return sureOf(await tasks.tell(taskId, { ...succeeded, at: now, ...finish }));
    },
    async [Symbol.asyncDispose]() {
      await store[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

function sureOf(told: Told | null): TaskRecord {
  if (told?.kind !== "changed") throw new Error(`it was ${told?.kind ?? "not there"}`);
  return told.task;
}
