import { contract } from "../../api/contract.js";
import { createTaskQueries, type TaskQueryDeps, type TaskQueryVerb } from "../../queries/tasks.js";
import { createTaskCursorCodec } from "../../queries/task-cursor.js";
import type { RequestContext } from "../../gateway/server/router.js";
import { NotFound } from "../../errors.js";
import type { SessionRecord } from "../../model/session.js";
import type { ReadStore } from "../../store/store.js";
import type { TaskRecord } from "../../model/task.js";
import type { WorkStatus, MaintenanceAction } from "../../tasks/plan-maintenance.js";
import { outcomeOfRun } from "../../tasks/outcome.js";
import { describeAction } from "../../tasks/shown-measure.js";
import { planSweep } from "../../tasks/sweep.js";
import { outcomeOfTurn } from "../../tasks/turn-end.js";
import type { ReadApi } from "../client/read-client.js";

/** Whoever may read the store is the operator. */
export function offlineTaskQueries(
  store: ReadStore | null,
  find: (wanted: string) => Promise<SessionRecord | null>,
  asking: RequestContext,
  notRestored: TaskQueryDeps["notRestored"],
): Pick<ReadApi, TaskQueryVerb | "maintainTasks"> {
  const from = store ?? EMPTY_TASK_STORE;
  const [nothing, body] = [{}, {}];
  const reading = createTaskQueries({
    store: from,
    // Nothing is hidden from whoever reads here.
    cursors: createTaskCursorCodec(""),
    notRestored,
    authorizer: {
      requireSession: async (_, wanted) => {
        const found = await find(wanted);
        if (found === null) throw new NotFound(`session ${wanted}`);
        return found;
      },
      findSession: (_, wanted) => find(wanted),
      canSeeTask: () => async () => true,
      filterVisibleTasks: async (_, _wanted, found) => found,
    },
  });
  return {
    listTasks: ({ query = {} } = {}) =>
      reading.listTasks({ params: {}, query: contract.listTasks.query.parse(query), body }, asking),
    getTask: ({ params = NO_TASK } = {}) => reading.getTask({ params, query: nothing, body }, asking),
    taskEvents: ({ params = NO_TASK, query = {} } = {}) =>
      reading.taskEvents({ params, query: contract.taskEvents.query.parse(query), body }, asking),
    auditTasks: () => reading.auditTasks({ params: {}, query: nothing, body }, asking),
    maintainTasks: async () => {
      const actions: MaintenanceAction[] = [];
      const workStatusOf = (task: TaskRecord): Promise<WorkStatus> => recordedWorkStatus(from, task);
      for await (const some of planSweep({ store: from, workStatusOf, now: Date.now, thorough: true }))
        actions.push(...some);
      return { applied: false, measures: actions.map(describeAction) };
    },
  };
}

type TaskStore = TaskQueryDeps["store"] & Pick<ReadStore, "getAcpTurn">;

/** What has ended is on record; of all else only a gateway can say whether somebody is still at it. */
async function recordedWorkStatus(store: TaskStore, { runId, turnId }: TaskRecord): Promise<WorkStatus> {
  const turn = turnId === null ? null : await store.getAcpTurn(turnId);
  const run = turnId !== null || runId === null ? null : await store.getRun(runId);
  const finish = turn !== null ? outcomeOfTurn(turn) : run !== null ? outcomeOfRun(run, null) : null;
  return finish === null ? { state: "unknown" } : { state: "ended", finish };
}

const NO_TASK = { id: "" };

/** What is read where nothing has been stored yet. */
const EMPTY_TASK_STORE: TaskStore = {
  getTask: async () => null,
  getTaskByKey: async () => null,
  findTasks: async () => [],
  listTasks: async () => [],
  listTaskEvents: async () => [],
  listOutbox: async () => [],
  getRun: async () => null,
  findRuns: async () => [],
  getAcpTurn: async () => null,
};
