import { defaults } from "../defaults.js";
import type { TaskRecord } from "../model/task.js";
import type { TaskFilter, TaskStore } from "../store/tasks/contract.js";
import { type AuditFinding, auditTask } from "./audit.js";
import { type MaintenanceAction, planMaintenance, type WorkStatus } from "./plan-maintenance.js";
import type { Tasks } from "./tasks.js";

/** Sweeps further apart mean that the host slept, the store was unavailable, or the clock was set. */
const MAX_GAP_MS = 2 * defaults.taskSweepMs;

/** Since when tasks have been observed without a gap. Before that, missing activity proves nothing. */
export class ObservationWindow {
  #since = Number.NaN;
  #last = Number.NaN;

  /** `now`: wall-clock milliseconds. */
  observedSince(now: number): number {
    if (!(Math.abs(now - this.#last) <= MAX_GAP_MS)) this.#since = now;
    this.#last = now;
    return this.#since;
  }
}

/** A page is a few hundred kilobytes. */
const PAGE_TASKS = 500;

interface SweepPlanOptions {
  readonly store: Pick<TaskStore, "listTasks">;
  /** Called for open tasks only. */
  readonly workStatusOf: (task: TaskRecord) => Promise<WorkStatus>;
  readonly now: () => number;
  /** Default: silence counts from the last event on record. */
  readonly window?: ObservationWindow;
  /** Also examine every ended task, which no index finds. */
  readonly thorough?: boolean;
}

interface SweepOptions extends SweepPlanOptions {
  readonly store: Pick<TaskStore, "listTasks" | "commitTask" | "deleteTasks">;
  readonly tasks: Pick<Tasks, "apply">;
  /** False: dry run. */
  readonly apply: boolean;
}

/** Brings open tasks in line with the state of their work, and deletes old ones. */
export async function sweepTasks(options: SweepOptions): Promise<readonly MaintenanceAction[]> {
  const planned: MaintenanceAction[] = [];
  for await (const actions of planSweep(options)) {
    planned.push(...actions);
    if (options.apply) await applyActions(options, actions);
  }
  return planned;
}

/** Plans the changes to all tasks, one page at a time, without making them. */
export async function* planSweep(
  options: SweepPlanOptions,
): AsyncGenerator<readonly MaintenanceAction[], void, undefined> {
  const { store, workStatusOf, now, window, thorough = false } = options;
  window?.observedSince(now());
  const ended = thorough ? { open: false } : { cleanupBefore: now() };
  for (const filter of [{ open: true }, ended])
    for await (const page of taskPages(store, filter)) {
      const actions: MaintenanceAction[] = [];
      for (const task of page) {
        const status: WorkStatus = task.endedAt === null ? await workStatusOf(task) : { state: "unknown" };
        const at = now();
        const action = planMaintenance(task, status, at, window?.observedSince(at));
        if (action !== null) actions.push(action);
      }
      yield actions;
    }
}

/** The findings of all tasks, newest task first. */
export async function auditAllTasks(
  store: Pick<TaskStore, "listTasks">,
  now: number,
): Promise<readonly AuditFinding[]> {
  const findings: AuditFinding[] = [];
  for await (const page of taskPages(store, {}))
    findings.push(...page.flatMap((task) => auditTask(task, now)));
  return findings;
}

async function applyActions(
  { store, tasks }: SweepOptions,
  actions: readonly MaintenanceAction[],
): Promise<void> {
  const deletable: string[] = [];
  for (const { taskId, version, ...action } of actions) {
    // A task that changed in the meantime is left to the next sweep.
    if (action.act === "tell") await tasks.apply(taskId, action.event, version);
    if (action.act === "date")
      await store.commitTask(taskId, version, { set: { cleanupAfter: action.cleanupAfter } });
    if (action.act === "forget") deletable.push(taskId);
  }
  await store.deleteTasks(deletable);
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
