import type { ParsedRequestOf, ResponseOf, RouteHandlers } from "../api/contract.js";
import { BadInput, NotFound } from "../errors.js";
import { NAME_LABEL } from "../model/enums.js";
import { looksLikeSessionId } from "../model/ids.js";
import type { OutboxEntry } from "../model/outbox.js";
import { omitUndefined } from "../model/record-type.js";
import type { RunRecord } from "../model/run.js";
import type { SessionRecord } from "../model/session.js";
import { isTaskEnded, type TaskEvent, type TaskRecord } from "../model/task.js";
import type { Authorizer } from "../sessions/authorizer.js";
import type { Requester } from "../sessions/requester.js";
import type { UnrestoredRecord } from "../store/local-copy/task-copy.js";
import type { RunFilter } from "../store/runs/contract.js";
import type { TaskStore } from "../store/tasks/contract.js";
import { auditAllTasks } from "../tasks/maintenance-pass.js";
import { taskKeyOfTurn } from "../tasks/tasks.js";

export type TaskQueryVerb = "listTasks" | "getTask" | "taskEvents" | "auditTasks";

export interface TaskQueryDeps {
  readonly store: Pick<
    TaskStore,
    "getTask" | "getTaskByKey" | "findTasks" | "listTasks" | "listTaskEvents" | "listOutbox"
  > & {
    getRun(runId: string): Promise<RunRecord | null>;
    findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]>;
    listRuns(filter: RunFilter): Promise<readonly RunRecord[]>;
  };
  readonly authorizer: Pick<
    Authorizer,
    "requireSession" | "findSession" | "sessionScope" | "filterVisibleTasks"
  >;
  /** Records of the last day that the store lost and that could not be restored. */
  readonly notRestored: () => Promise<readonly UnrestoredRecord[]>;
}

/** Read-only handlers, used by the gateway and, without a gateway, on the store alone. */
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
      // Read after the events, so that the task is not older than they are.
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

/** Tasks that the error of an ambiguous name lists. */
const MAX_NAMED = 5;
/** The least characters of an id prefix: a shorter one could match by chance. */
const MIN_PREFIX_CHARS = 4;
/** Runs of one name that are read, newest first: an open run is among the newest. */
const MAX_NAMESAKES = 20;
/** Candidates that are checked for visibility. */
const MAX_SCANNED = 1_000;

/**
 * Finds a task by id, run, turn, session, or an abbreviation of one of them. Rejects with NotFound also if the requester
 * may not see it.
 */
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
  if (task === undefined) throw NotFound.task(wanted);
  if (several.length === 1) return task;
  const named = several.slice(0, MAX_NAMED).map(({ taskId }) => taskId);
  const more = several.length > MAX_NAMED ? ", …" : "";
  throw new BadInput(
    "task",
    `${JSON.stringify(wanted)} may mean several tasks: ${named.join(", ")}${more}; name one by its id. Nothing was done`,
  );
}

interface TaskCandidates {
  readonly tasks: readonly TaskRecord[];
  /** The name of a session or run means one task: its open one, otherwise its newest. */
  readonly newest?: true;
}

async function findCandidates(
  deps: TaskQueryDeps,
  requester: Requester,
  wanted: string,
): Promise<TaskCandidates> {
  const { store, authorizer } = deps;
  const limit = requester.kind === "operator" ? MAX_NAMED + 1 : MAX_SCANNED;
  if (wanted.startsWith("run_")) {
    const of = await store.listTasks({ runId: wanted, limit });
    return { tasks: of.length > 0 ? of : await tasksOfRuns(store, await runsByPrefix(store, wanted), limit) };
  }
  if (wanted.startsWith("task_")) return { tasks: await store.findTasks(idPrefix("task_", wanted), limit) };
  if (wanted.startsWith("turn_")) {
    const task = await store.getTaskByKey(taskKeyOfTurn(wanted));
    if (task !== null) return { tasks: [task] };
  }
  const named = await tasksOfName(deps, requester, wanted);
  if (named.length > 0 || looksLikeSessionId(wanted)) return { tasks: named, newest: true };
  const byId = wanted.length < MIN_PREFIX_CHARS ? [] : await store.findTasks(`task_${wanted}`, limit);
  if (byId.length > 0) return { tasks: byId };
  const session = await authorizer.findSession(requester, wanted, true);
  return { tasks: session === null ? [] : await tasksOfSession(store, session), newest: true };
}

/** Tasks of the session, or else of the runs, that have this whole name. */
async function tasksOfName(
  { store, authorizer }: TaskQueryDeps,
  requester: Requester,
  name: string,
): Promise<readonly TaskRecord[]> {
  const session = await authorizer.findSession(requester, name, false);
  const of = session === null ? [] : await tasksOfSession(store, session);
  if (of.length > 0 || looksLikeSessionId(name)) return of;
  const scope = authorizer.sessionScope(requester);
  const seenBy = scope === null ? {} : { seenBy: scope };
  const labels = { [NAME_LABEL]: name };
  const runs = await store.listRuns({ labels, ...seenBy, limit: MAX_NAMESAKES, withoutLabels: true });
  return tasksOfRuns(store, runs, 1);
}

function runsByPrefix(store: TaskQueryDeps["store"], wanted: string): Promise<readonly RunRecord[]> {
  return store.findRuns(idPrefix("run_", wanted), MAX_NAMED + 1);
}

async function tasksOfRuns(
  store: TaskQueryDeps["store"],
  runs: readonly RunRecord[],
  limit: number,
): Promise<readonly TaskRecord[]> {
  return (await Promise.all(runs.map(({ runId }) => store.listTasks({ runId, limit })))).flat();
}

function idPrefix(kind: "run_" | "task_", wanted: string): string {
  if (wanted.length >= kind.length + MIN_PREFIX_CHARS) return wanted;
  throw new BadInput(
    "task",
    `${JSON.stringify(wanted)} is too short: give at least ${MIN_PREFIX_CHARS} characters after ${kind}. Nothing was done`,
  );
}

/** The tasks that a session works on, or if there are none, the tasks it owns. */
async function tasksOfSession(
  store: TaskQueryDeps["store"],
  { id }: SessionRecord,
): Promise<readonly TaskRecord[]> {
  const done = await store.listTasks({ childSessionId: id, limit: MAX_SCANNED });
  return done.length > 0 ? done : store.listTasks({ sessionId: id, limit: MAX_SCANNED });
}

async function listTasks(
  { store, authorizer }: TaskQueryDeps,
  requester: Requester,
  query: ParsedRequestOf<"listTasks">["query"],
): Promise<ResponseOf<"listTasks">> {
  const { status, runtime, delivery, session, open, cursor, limit } = query;
  const scope = authorizer.sessionScope(requester);
  const filter = {
    statuses: status,
    runtimes: runtime,
    deliveries: delivery,
    sessionId: session && (await authorizer.requireSession(requester, session)).id,
    open: open === true ? true : undefined,
    seenBy: scope ?? undefined,
    after: cursor,
    // One more, to find out whether there is a next page.
    limit: limit + 1,
  };
  const found = await store.listTasks(omitUndefined(filter));
  const tasks = found.slice(0, limit);
  const last = tasks.at(-1);
  const more = found.length > limit && last !== undefined;
  return { tasks, next: more ? `${last.createdAt}.${last.taskId}` : null };
}

function taskEventResponse(event: TaskEvent): ResponseOf<"taskEvents">["events"][number] {
  return { ...event, data: { ...event.data } };
}

function taskMessageResponse(entry: OutboxEntry): ResponseOf<"getTask">["messages"][number] {
  const { notification, target, status, attempts, error, receipt, createdAt, settledAt } = entry;
  const { id, kind, text } = notification;
  return { id, kind, target, status, attempts, text, error, receipt, createdAt, settledAt };
}
