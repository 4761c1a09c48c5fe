import { setImmediate as nextTurn } from "node:timers/promises";
import type { ParsedRequestOf, ResponseOf } from "../api/contract.js";
import { BadInput, NotFound } from "../errors.js";
import type { RouteHandlers } from "../api/handler.js";
import { looksLikeSessionId } from "../model/ids.js";
import type { RunRecord } from "../model/run.js";
import type { SessionRecord } from "../model/session.js";
import { isTaskEnded, type TaskRecord } from "../model/task.js";
import type { OutboxEntry } from "../model/outbox.js";
import type { Authorizer } from "../sessions/authorizer.js";
import type { Requester } from "../sessions/requester.js";
import type { UnrestoredRecord } from "../store/local-copy/unrestored.js";
import type { TaskFilter, TaskStore } from "../store/tasks/store.js";
import { taskKeyOfTurn } from "../tasks/new-task.js";
import { auditAllTasks } from "../tasks/sweep.js";
import type { TaskCursorCodec } from "./task-cursor.js";

export type TaskQueryVerb = "listTasks" | "getTask" | "taskEvents" | "auditTasks";

export interface TaskQueryDeps {
  readonly store: Pick<
    TaskStore,
    "getTask" | "getTaskByKey" | "findTasks" | "listTasks" | "listTaskEvents" | "listOutbox"
  > & {
    getRun(runId: string): Promise<RunRecord | null>;
    findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]>;
  };
  readonly authorizer: Pick<
    Authorizer,
    "requireSession" | "findSession" | "canSeeTask" | "filterVisibleTasks"
  >;
  readonly cursors: TaskCursorCodec;
  /** Records of the last day that the store had lost and that could not be put back. */
  readonly notRestored: () => Promise<readonly UnrestoredRecord[]>;
}

/** What changes nothing: the same with a gateway, and from the store alone. */
export function createTaskQueries(deps: TaskQueryDeps): Pick<RouteHandlers, TaskQueryVerb> {
  const { store } = deps;
  return {
    listTasks: ({ query }, { requester }) => listTasks(deps, requester, query),

    getTask: async ({ params }, { requester }) => {
      const task = await resolveTask(deps, requester, params.id);
      const { taskId, runId } = task;
      return {
        task,
        events: (await store.listTaskEvents(taskId)).map(taskEventResponse),
        messages: (await store.listOutbox({ taskId })).map(taskMessageResponse),
        run: runId === null ? null : await store.getRun(runId),
      };
    },

    taskEvents: async ({ params, query: { after } }, { requester }) => {
      const { taskId } = await resolveTask(deps, requester, params.id);
      const events = (await store.listTaskEvents(taskId)).filter(({ seq }) => seq > after);
      // After them: what it says is no older than what they tell.
      const task = (await store.getTask(taskId)) ?? (await resolveTask(deps, requester, taskId));
      return { task, events: events.map(taskEventResponse), after: events.at(-1)?.seq ?? after };
    },

    auditTasks: async () => {
      const lost = (await deps.notRestored()).map(({ taskId, detail }) => ({
        code: "not_restored" as const,
        taskId,
        detail,
      }));
      return { findings: [...lost, ...(await auditAllTasks(store, Date.now()))] };
    },
  };
}

/** As many as are named when a name is not enough, and one more. */
const MAX_NAMED = 5;
/** Of an id without what it begins with: less is a slip, and may be right by chance. */
const MIN_PREFIX_CHARS = 4;
/** Looked through for those that a session may see. */
const MAX_SCANNED = 1_000;

/** By its id, a beginning of it, or the run, turn or session that does it. What is not there and what may not be seen answer alike. */
export async function resolveTask(
  deps: TaskQueryDeps,
  requester: Requester,
  wanted: string,
): Promise<TaskRecord> {
  const { tasks: found, newest = false } = await findCandidates(deps, requester, wanted);
  const exact = found.find(({ taskId }) => taskId === wanted);
  const seen = await deps.authorizer.filterVisibleTasks(
    requester,
    wanted,
    exact === undefined ? found : [exact],
  );
  const open = newest ? seen.filter(({ status }) => !isTaskEnded(status)) : seen;
  const several = open.length > 0 ? open : seen.slice(0, 1);
  const [task] = several;
  if (task === undefined) throw new NotFound(`task ${wanted}`);
  if (several.length === 1) return task;
  const named = several.slice(0, MAX_NAMED).map(({ taskId }) => taskId);
  const more = several.length > MAX_NAMED ? ", …" : "";
  throw new BadInput(
    "task",
    `${JSON.stringify(wanted)} may mean several tasks: ${named.join(", ")}${more}; nothing was done`,
  );
}

interface TaskCandidates {
  readonly tasks: readonly TaskRecord[];
  /** One is meant in any case: what goes on, or else the newest. */
  readonly newest?: true;
}

async function findCandidates(
  { store, authorizer }: TaskQueryDeps,
  requester: Requester,
  wanted: string,
): Promise<TaskCandidates> {
  const limit = requester.kind === "operator" ? MAX_NAMED + 1 : MAX_SCANNED;
  if (wanted.startsWith("run_")) {
    const of = await store.listTasks({ runId: wanted, limit });
    if (of.length > 0) return { tasks: of };
    const runs = await store.findRuns(idPrefix("run_", wanted), MAX_NAMED + 1);
    const each = await Promise.all(runs.map(({ runId }) => store.listTasks({ runId, limit })));
    return { tasks: each.flat() };
  }
  if (wanted.startsWith("turn_")) {
    const task = await store.getTaskByKey(taskKeyOfTurn(wanted));
    if (task !== null) return { tasks: [task] };
  }
  const session = wanted.startsWith("task_") ? null : await authorizer.findSession(requester, wanted);
  if (session !== null) return { tasks: await tasksOfSession(store, session), newest: true };
  if (looksLikeSessionId(wanted)) return { tasks: [] };
  return { tasks: await store.findTasks(idPrefix("task_", wanted), limit) };
}

function idPrefix(kind: "run_" | "task_", wanted: string): string {
  const id = wanted.startsWith(kind) ? wanted : `${kind}${wanted}`;
  if (id.length >= kind.length + MIN_PREFIX_CHARS) return id;
  const what = id === wanted ? "is" : "is no session that may be seen, and";
  throw new BadInput(
    "task",
    `${JSON.stringify(wanted)} ${what} too little to name a task: of an id it takes ${MIN_PREFIX_CHARS} characters after ${kind}; nothing was done`,
  );
}

/** What a session does; of one that does nothing, what it asked for. */
async function tasksOfSession(
  store: TaskQueryDeps["store"],
  { id }: SessionRecord,
): Promise<readonly TaskRecord[]> {
  const done = await store.listTasks({ childSessionId: id, limit: MAX_SCANNED });
  return done.length > 0 ? done : store.listTasks({ sessionId: id, limit: MAX_SCANNED });
}

/** Read at a time; of what a session may not see, no more than a few of these are looked through for one answer. */
const PAGE_SIZE = 500;
const MAX_PAGES = 10;

async function listTasks(
  { store, authorizer, cursors }: TaskQueryDeps,
  requester: Requester,
  query: ParsedRequestOf<"listTasks">["query"],
): Promise<ResponseOf<"listTasks">> {
  const { status, runtime, delivery, session, open, cursor, limit } = query;
  const filter: Omit<TaskFilter, "limit" | "after"> = {
    ...(status === undefined ? {} : { statuses: status }),
    ...(runtime === undefined ? {} : { runtimes: runtime }),
    ...(delivery === undefined ? {} : { deliveries: delivery }),
    ...(session === undefined ? {} : { sessionId: (await authorizer.requireSession(requester, session)).id }),
    ...(open === true ? { open } : {}),
  };
  const sees = authorizer.canSeeTask(requester);
  const size = requester.kind === "operator" ? limit + 1 : PAGE_SIZE;
  const tasks: TaskRecord[] = [];
  let last = cursor === undefined ? null : cursors.decode(cursor);
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await store.listTasks({ ...filter, limit: size, ...(last === null ? {} : { after: last }) });
    for (const task of page) {
      if (tasks.length === limit) return { tasks, next: last === null ? null : cursors.encode(last) };
      last = task;
      if (await sees(task)) tasks.push(task);
    }
    if (page.length < size) return { tasks, next: null };
    // SQLite reads block the event loop.
    await nextTurn();
  }
  return { tasks, next: last === null ? null : cursors.encode(last) };
}

function taskEventResponse({
  taskId,
  seq,
  at,
  type,
  data,
}: Awaited<ReturnType<TaskStore["listTaskEvents"]>>[number]): ResponseOf<"taskEvents">["events"][number] {
  return { taskId, seq, at, type, data: { ...data } };
}

function taskMessageResponse(entry: OutboxEntry): ResponseOf<"getTask">["messages"][number] {
  const { notification, target, status, attempts, error, receipt, createdAt, settledAt } = entry;
  const { id, kind, text } = notification;
  return { id, kind, target, status, attempts, text, error, receipt, createdAt, settledAt };
}
