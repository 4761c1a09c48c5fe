import type { TaskRecord } from "../store/task-record.js";
import type { TaskFilter, TaskStore } from "../store/task-store.js";
import { audit, type Finding } from "./audit.js";
import { measure, type Backing, type Measure } from "./maintenance.js";
import type { Tasks } from "./tasks.js";
import type { Watch } from "./watch.js";

/** Read at a time: a page is a few hundred kilobytes. */
const PAGE = 500;

export interface RoundOptions {
  readonly store: Pick<TaskStore, "listTasks">;
  /** What is known of whoever does it. Asked for open tasks only. */
  readonly backingOf: (task: TaskRecord) => Promise<Backing>;
  readonly now: () => number;
  /** Left out: what is on record counts, whoever wrote it. */
  readonly watch?: Watch;
  /** Also look at every task that has ended, for what no index tells. */
  readonly thorough?: boolean;
}

export interface SweepOptions extends RoundOptions {
  readonly store: Pick<TaskStore, "listTasks" | "commitTask" | "deleteTasks">;
  readonly tasks: Pick<Tasks, "tell">;
  /** False: only say what would be done. */
  readonly apply: boolean;
}

/** At start and then again and again: bring open tasks in line with what became of their work, and forget old ones. */
export async function sweep(options: SweepOptions): Promise<readonly Measure[]> {
  const taken: Measure[] = [];
  for await (const measures of round(options)) {
    taken.push(...measures);
    if (options.apply) await carryOut(options, measures);
  }
  return taken;
}

/** What is to be done about all tasks, some at a time. Changes nothing. */
export async function* round(options: RoundOptions): AsyncGenerator<readonly Measure[], void, undefined> {
  const { store, now, watch, thorough = false } = options;
  watch?.since(now());
  const ended = thorough ? { open: false } : { cleanupBefore: now() };
  for (const filter of [{ open: true }, ended])
    for await (const page of pagesOf(store, filter)) {
      const measures: Measure[] = [];
      for (const task of page) {
        const found = await backing(options, task);
        const at = now();
        const wanted = measure(task, found, at, watch?.since(at));
        if (wanted !== null) measures.push(wanted);
      }
      yield measures;
    }
}

/** Everything that an operator should look at, newest task first. */
export async function auditAll(
  store: Pick<TaskStore, "listTasks">,
  now: number,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for await (const page of pagesOf(store, {})) findings.push(...page.flatMap((task) => audit(task, now)));
  return findings;
}

function backing({ backingOf }: RoundOptions, task: TaskRecord): Promise<Backing> {
  return task.endedAt === null ? backingOf(task) : Promise.resolve({ state: "unknown" });
}

async function carryOut({ store, tasks }: SweepOptions, measures: readonly Measure[]): Promise<void> {
  const old: string[] = [];
  for (const { taskId, version, ...wanted } of measures) {
    // What was changed meanwhile stays as it is: the next sweep looks again.
    if (wanted.act === "tell") await tasks.tell(taskId, wanted.happening, version);
    if (wanted.act === "date")
      await store.commitTask(taskId, version, { set: { cleanupAfter: wanted.cleanupAfter } });
    if (wanted.act === "forget") old.push(taskId);
  }
  await store.deleteTasks(old);
}

async function* pagesOf(
  store: Pick<TaskStore, "listTasks">,
  filter: Omit<TaskFilter, "limit" | "after">,
): AsyncGenerator<readonly TaskRecord[], void, undefined> {
  let page = await store.listTasks({ ...filter, limit: PAGE });
  while (page.length > 0) {
    yield page;
    const after = page.at(-1);
    if (page.length < PAGE || after === undefined) return;
    page = await store.listTasks({ ...filter, limit: PAGE, after });
  }
}
