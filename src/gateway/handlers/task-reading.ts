import { setImmediate as nextTurn } from "node:timers/promises";
import { BadInput, NotFound } from "../../errors.js";
import { looksLikeSessionId } from "../../sessions/ids.js";
import type { NotRestored } from "../../store/ledger/not-restored.js";
import type { RunRecord } from "../../store/run-record.js";
import type { SessionRow } from "../../store/session-record.js";
import { isEnded, type OutboxEntry, type TaskRecord } from "../../store/task-record.js";
import type { TaskFilter, TaskStore } from "../../store/task-store.js";
import { keyOfTurn } from "../../tasks/key.js";
import { auditAll } from "../../tasks/sweep.js";
import type { AnswerOf, HeardOf } from "../contract/contract.js";
import type { Handlers } from "../server/app.js";
import type { Requester } from "../server/requester.js";
import type { Sights } from "../sights.js";
import type { TaskPlaces } from "./task-places.js";

export type TaskReadingVerb = "listTasks" | "getTask" | "taskEvents" | "auditTasks";

export interface TaskReadingDesk {
  readonly store: Pick<
    TaskStore,
    "getTask" | "getTaskByKey" | "findTasks" | "listTasks" | "listTaskEvents" | "listOutbox"
  > & {
    getRun(runId: string): Promise<RunRecord | null>;
    findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]>;
  };
  readonly sights: Pick<Sights, "session" | "perhaps" | "tasksOf" | "tasks">;
  readonly places: TaskPlaces;
  /** Records of the last day that the store had lost and that could not be put back. */
  readonly notRestored: () => Promise<readonly NotRestored[]>;
}

/** What changes nothing: the same with a gateway, and from the store alone. */
export function createTaskReading(desk: TaskReadingDesk): Pick<Handlers, TaskReadingVerb> {
  const { store } = desk;
  return {
    listTasks: ({ query }, { requester }) => listTasks(desk, requester, query),

    getTask: async ({ params }, { requester }) => {
      const task = await visibleTask(desk, requester, params.id);
      const { taskId, runId } = task;
      return {
        task,
        events: (await store.listTaskEvents(taskId)).map(shownEvent),
        messages: (await store.listOutbox({ taskId })).map(shownMessage),
        run: runId === null ? null : await store.getRun(runId),
      };
    },

    taskEvents: async ({ params, query: { after } }, { requester }) => {
      const { taskId } = await visibleTask(desk, requester, params.id);
      const events = (await store.listTaskEvents(taskId)).filter(({ seq }) => seq > after);
      // After them: what it says is no older than what they tell.
      const task = (await store.getTask(taskId)) ?? (await visibleTask(desk, requester, taskId));
      return { task, events: events.map(shownEvent), after: events.at(-1)?.seq ?? after };
    },

    auditTasks: async () => {
      const lost = (await desk.notRestored()).map(({ taskId, detail }) => ({
        code: "not_restored" as const,
        taskId,
        detail,
      }));
      return { findings: [...lost, ...(await auditAll(store, Date.now()))] };
    },
  };
}

/** As many as are named when a name is not enough, and one more. */
const NAMED = 5;
/** Of an id without what it begins with: less is a slip, and may be right by chance. */
const ENOUGH = 4;
/** Looked through for those that a session may see. */
const LOOKED_THROUGH = 1_000;

/** By its id, a beginning of it, or the run, turn or session that does it. What is not there and what may not be seen answer alike. */
export async function visibleTask(
  desk: TaskReadingDesk,
  requester: Requester,
  wanted: string,
): Promise<TaskRecord> {
  const { tasks: found, newest = false } = await meant(desk, requester, wanted);
  const exact = found.find(({ taskId }) => taskId === wanted);
  const seen = await desk.sights.tasks(requester, wanted, exact === undefined ? found : [exact]);
  const open = newest ? seen.filter(({ status }) => !isEnded(status)) : seen;
  const several = open.length > 0 ? open : seen.slice(0, 1);
  const [task] = several;
  if (task === undefined) throw new NotFound(`task ${wanted}`);
  if (several.length === 1) return task;
  const named = several.slice(0, NAMED).map(({ taskId }) => taskId);
  const more = several.length > NAMED ? ", …" : "";
  throw new BadInput(
    "task",
    `${JSON.stringify(wanted)} may mean several tasks: ${named.join(", ")}${more}; nothing was done`,
  );
}

interface Meant {
  readonly tasks: readonly TaskRecord[];
  /** One is meant in any case: what goes on, or else the newest. */
  readonly newest?: true;
}

async function meant(
  { store, sights }: TaskReadingDesk,
  requester: Requester,
  wanted: string,
): Promise<Meant> {
  const limit = requester.kind === "operator" ? NAMED + 1 : LOOKED_THROUGH;
  if (wanted.startsWith("run_")) {
    const of = await store.listTasks({ runId: wanted, limit });
    if (of.length > 0) return { tasks: of };
    const runs = await store.findRuns(beginning("run_", wanted), NAMED + 1);
    const each = await Promise.all(runs.map(({ runId }) => store.listTasks({ runId, limit })));
    return { tasks: each.flat() };
  }
  if (wanted.startsWith("turn_")) {
    const task = await store.getTaskByKey(keyOfTurn(wanted));
    if (task !== null) return { tasks: [task] };
  }
  const session = wanted.startsWith("task_") ? null : await sights.perhaps(requester, wanted);
  if (session !== null) return { tasks: await ofSession(store, session), newest: true };
  if (looksLikeSessionId(wanted)) return { tasks: [] };
  return { tasks: await store.findTasks(beginning("task_", wanted), limit) };
}

function beginning(kind: "run_" | "task_", wanted: string): string {
  const id = wanted.startsWith(kind) ? wanted : `${kind}${wanted}`;
  if (id.length >= kind.length + ENOUGH) return id;
  const what = id === wanted ? "is" : "is no session that may be seen, and";
  throw new BadInput(
    "task",
    `${JSON.stringify(wanted)} ${what} too little to name a task: of an id it takes ${ENOUGH} characters after ${kind}; nothing was done`,
  );
}

/** What a session does; of one that does nothing, what it asked for. */
async function ofSession(
  store: TaskReadingDesk["store"],
  { id }: SessionRow,
): Promise<readonly TaskRecord[]> {
  const done = await store.listTasks({ childSessionId: id, limit: LOOKED_THROUGH });
  return done.length > 0 ? done : store.listTasks({ sessionId: id, limit: LOOKED_THROUGH });
}

/** Read at a time; of what a session may not see, no more than a few of these are looked through for one answer. */
const PAGE = 500;
const PAGES = 10;

async function listTasks(
  { store, sights, places }: TaskReadingDesk,
  requester: Requester,
  query: HeardOf<"listTasks">["query"],
): Promise<AnswerOf<"listTasks">> {
  const { status, runtime, delivery, session, open, cursor, limit } = query;
  const filter: Omit<TaskFilter, "limit" | "after"> = {
    ...(status === undefined ? {} : { statuses: status }),
    ...(runtime === undefined ? {} : { runtimes: runtime }),
    ...(delivery === undefined ? {} : { deliveries: delivery }),
    ...(session === undefined ? {} : { sessionId: (await sights.session(requester, session)).id }),
    ...(open === true ? { open } : {}),
  };
  const sees = sights.tasksOf(requester);
  const size = requester.kind === "operator" ? limit + 1 : PAGE;
  const tasks: TaskRecord[] = [];
  let last = cursor === undefined ? null : places.read(cursor);
  for (let pages = 0; pages < PAGES; pages++) {
    const page = await store.listTasks({ ...filter, limit: size, ...(last === null ? {} : { after: last }) });
    for (const task of page) {
      if (tasks.length === limit) return { tasks, next: last === null ? null : places.write(last) };
      last = task;
      if (await sees(task)) tasks.push(task);
    }
    if (page.length < size) return { tasks, next: null };
    // SQLite reads block the event loop.
    await nextTurn();
  }
  return { tasks, next: last === null ? null : places.write(last) };
}

function shownEvent({
  taskId,
  seq,
  at,
  type,
  data,
}: Awaited<ReturnType<TaskStore["listTaskEvents"]>>[number]): AnswerOf<"taskEvents">["events"][number] {
  return { taskId, seq, at, type, data: { ...data } };
}

function shownMessage(entry: OutboxEntry): AnswerOf<"getTask">["messages"][number] {
  const { notification, target, status, attempts, error, receipt, createdAt, settledAt } = entry;
  const { id, kind, text } = notification;
  return { id, kind, target, status, attempts, text, error, receipt, createdAt, settledAt };
}
