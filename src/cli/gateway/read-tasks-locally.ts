import { contract } from "../../gateway/contract/contract.js";
import {
  createTaskReading,
  type TaskReadingDesk,
  type TaskReadingVerb,
} from "../../gateway/handlers/task-reading.js";
import { taskPlaces } from "../../gateway/handlers/task-places.js";
import type { Asking } from "../../gateway/server/app.js";
import { NotFound } from "../../errors.js";
import type { SessionRow } from "../../store/session-record.js";
import type { ReadStore } from "../../store/store.js";
import type { TaskRecord } from "../../store/task-record.js";
import type { Backing, Measure } from "../../tasks/maintenance.js";
import { finishOfRun } from "../../tasks/run-end.js";
import { shownMeasure } from "../../tasks/shown-measure.js";
import { round } from "../../tasks/sweep.js";
import { finishOfTurn } from "../../tasks/turn-end.js";
import type { Looking } from "./look.js";

/** Whoever may read the store is the operator. */
export function readTasksLocally(
  store: ReadStore | null,
  find: (wanted: string) => Promise<SessionRow | null>,
  asking: Asking,
  notRestored: TaskReadingDesk["notRestored"],
): Pick<Looking, TaskReadingVerb | "maintainTasks"> {
  const from = store ?? NOTHING;
  const [nothing, body] = [{}, {}];
  const reading = createTaskReading({
    store: from,
    // Nothing is hidden from whoever reads here.
    places: taskPlaces(""),
    notRestored,
    sights: {
      session: async (_, wanted) => {
        const found = await find(wanted);
        if (found === null) throw new NotFound(`session ${wanted}`);
        return found;
      },
      perhaps: (_, wanted) => find(wanted),
      tasksOf: () => async () => true,
      tasks: async (_, _wanted, found) => found,
    },
  });
  return {
    listTasks: ({ query = {} } = {}) =>
      reading.listTasks({ params: {}, query: contract.listTasks.query.parse(query), body }, asking),
    getTask: ({ params = NOBODY } = {}) => reading.getTask({ params, query: nothing, body }, asking),
    taskEvents: ({ params = NOBODY, query = {} } = {}) =>
      reading.taskEvents({ params, query: contract.taskEvents.query.parse(query), body }, asking),
    auditTasks: () => reading.auditTasks({ params: {}, query: nothing, body }, asking),
    maintainTasks: async () => {
      const measures: Measure[] = [];
      const backingOf = (task: TaskRecord): Promise<Backing> => onRecord(from, task);
      for await (const some of round({ store: from, backingOf, now: Date.now, thorough: true }))
        measures.push(...some);
      return { applied: false, measures: measures.map(shownMeasure) };
    },
  };
}

type TaskSource = TaskReadingDesk["store"] & Pick<ReadStore, "getAcpTurn">;

/** What has ended is on record; of all else only a gateway can say whether somebody is still at it. */
async function onRecord(store: TaskSource, { runId, turnId }: TaskRecord): Promise<Backing> {
  const turn = turnId === null ? null : await store.getAcpTurn(turnId);
  const run = turnId !== null || runId === null ? null : await store.getRun(runId);
  const finish = turn !== null ? finishOfTurn(turn) : run !== null ? finishOfRun(run, null) : null;
  return finish === null ? { state: "unknown" } : { state: "ended", finish };
}

const NOBODY = { id: "" };

/** What is read where nothing has been stored yet. */
const NOTHING: TaskSource = {
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
