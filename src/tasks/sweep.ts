import { defaults } from "../defaults.js";
import type { TaskRecord } from "../model/task.js";
import type { TaskFilter, TaskStore } from "../store/tasks/store.js";
import { type AuditFinding, auditTask } from "./audit.js";
import { type MaintenanceAction, planMaintenance, type WorkStatus } from "./plan-maintenance.js";
import type { Tasks } from "./tasks.js";

/** Between two looks there is less, unless the host slept, the store was away, or the clock was set. */
const MAX_GAP_MS = 2 * defaults.taskSweepMs;

/**
 * Since when somebody has been looking, without a gap. Of the time before it nobody can say who was not heard of: whoever
 * does the work could not be either.
 */
export class ObservationWindow {
  #since = Number.NaN;
  #last = Number.NaN;

  /** `now`: of the wall clock. */
  observedSince(now: number): number {
    if (!(Math.abs(now - this.#last) <= MAX_GAP_MS)) this.#since = now;
    this.#last = now;
    return this.#since;
  }
}

/** Read at a time: a page is a few hundred kilobytes. */
const PAGE_TASKS = 500;

export interface SweepPlanOptions {
  readonly store: Pick<TaskStore, "listTasks">;
  /** What is known of whoever does it. Asked for open tasks only. */
  readonly workStatusOf: (task: TaskRecord) => Promise<WorkStatus>;
  readonly now: () => number;
  /** Left out: what is on record counts, whoever wrote it. */
  readonly window?: ObservationWindow;
  /** Also look at every task that has ended, for what no index tells. */
  readonly thorough?: boolean;
}

export interface SweepOptions extends SweepPlanOptions {
  readonly store: Pick<TaskStore, "listTasks" | "commitTask" | "deleteTasks">;
  readonly tasks: Pick<Tasks, "apply">;
  /** False: only say what would be done. */
  readonly apply: boolean;
}

/** At start and then again and again: bring open tasks in line with what became of their work, and forget old ones. */
export async function sweepTasks(options: SweepOptions): Promise<readonly MaintenanceAction[]> {
  const taken: MaintenanceAction[] = [];
  for await (const actions of planSweep(options)) {
    taken.push(...actions);
    if (options.apply) await applyActions(options, actions);
  }
  return taken;
}

/** What is to be done about all tasks, some at a time. Changes nothing. */
export async function* planSweep(
  options: SweepPlanOptions,
): AsyncGenerator<readonly MaintenanceAction[], void, undefined> {
  const { store, now, window, thorough = false } = options;
  window?.observedSince(now());
  const ended = thorough ? { open: false } : { cleanupBefore: now() };
  for (const filter of [{ open: true }, ended])
    for await (const page of taskPages(store, filter)) {
      const actions: MaintenanceAction[] = [];
      for (const task of page) {
        const status = await openWorkStatus(options, task);
        const at = now();
        const wanted = planMaintenance(task, status, at, window?.observedSince(at));
        if (wanted !== null) actions.push(wanted);
      }
      yield actions;
    }
}

/** Everything that an operator should look at, newest task first. */
export async function auditAllTasks(
  store: Pick<TaskStore, "listTasks">,
  now: number,
): Promise<readonly AuditFinding[]> {
  const findings: AuditFinding[] = [];
  for await (const page of taskPages(store, {}))
    findings.push(...page.flatMap((task) => auditTask(task, now)));
  return findings;
}

function openWorkStatus({ workStatusOf }: SweepPlanOptions, task: TaskRecord): Promise<WorkStatus> {
  return task.endedAt === null ? workStatusOf(task) : Promise.resolve({ state: "unknown" });
}

async function applyActions(
  { store, tasks }: SweepOptions,
  actions: readonly MaintenanceAction[],
): Promise<void> {
  const old: string[] = [];
  for (const { taskId, version, ...wanted } of actions) {
    // What was changed meanwhile stays as it is: the next sweep looks again.
    if (wanted.act === "tell") await tasks.apply(taskId, wanted.happening, version);
    if (wanted.act === "date")
      await store.commitTask(taskId, version, { set: { cleanupAfter: wanted.cleanupAfter } });
    if (wanted.act === "forget") old.push(taskId);
  }
  await store.deleteTasks(old);
}

async function* taskPages(
  store: Pick<TaskStore, "listTasks">,
  filter: Omit<TaskFilter, "limit" | "after">,
): AsyncGenerator<readonly TaskRecord[], void, undefined> {
  let page = await store.listTasks({ ...filter, limit: PAGE_TASKS });
  while (page.length > 0) {
    yield page;
    const after = page.at(-1);
    if (page.length < PAGE_TASKS || after === undefined) return;
    page = await store.listTasks({ ...filter, limit: PAGE_TASKS, after });
  }
}
