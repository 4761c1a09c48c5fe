import type { StreamName } from "../../anchor/host.js";
import { contract, type RequestContext } from "../../api/contract.js";
import { NotFound, PeerUnreachable, RunNotFound } from "../../errors.js";
import { readStateId } from "../../home/state-identity.js";
import { looksLikeSessionId } from "../../model/ids.js";
import type { RunRecord } from "../../model/run.js";
import type { SessionRecord } from "../../model/session.js";
import type { TaskRecord } from "../../model/task.js";
import { createAcpQueries } from "../../queries/acp.js";
import { readLog } from "../../queries/output.js";
import { findOwningGateway, runCursor, runFilter, type RunReader } from "../../queries/runs.js";
import { pollRun } from "../../queries/poll.js";
import { ScreenCache, screenshot } from "../../queries/screen.js";
import { readSessionHistory, readSessionInbox, readSessionStatus } from "../../queries/sessions.js";
import { createTaskQueries, type TaskQueryDeps, type TaskQueryVerb } from "../../queries/tasks.js";
import { FileRunCopy, listCopiedRuns, localCopyDirectory } from "../../store/local-copy/run-copy.js";
import { readUnrestored, type UnrestoredRecord } from "../../store/local-copy/task-copy.js";
import { findStateDirectory, isStoreFailure, openStoreForReading } from "../../store/open.js";
import type { ReadStore } from "../../store/store.js";
import type { ReadOptions } from "../../supervisor/run-options.js";
import { readOutput } from "../../supervisor/run/output.js";
import { runAddressOf } from "../../supervisor/run/recorded-identity.js";
import { outcomeOfRun, outcomeOfTurn } from "../../tasks/outcome.js";
import { describeAction, type MaintenanceAction, type WorkStatus } from "../../tasks/plan-maintenance.js";
import { planSweep } from "../../tasks/sweep.js";
import type { ReadApi, ReadClient } from "./connect.js";
import { isOfOtherState, localInstanceIds, openLocalObserver } from "./resolve-run.js";

type AcpReadApi = Pick<ReadApi, "acpList" | "acpShow" | "acpHistory" | "acpWatch" | "acpPermissions">;

/** Queries of ACP sessions for the operator, who may read the whole store. */
export function offlineAcpQueries(
  store: ReadStore | null,
  find: (wanted: string) => Promise<SessionRecord>,
  asking: RequestContext,
): AcpReadApi {
  const body = {};
  const reading = createAcpQueries({
    store: store ?? EMPTY_ACP_STORE,
    sessions: { get: async (id) => (await store?.getSession(id)) ?? null },
    authorizer: { requireSession: (_, wanted) => find(wanted), sessionScope: () => null },
    stderrOf: () => "",
    questionOf: async () => null,
    verifyOwnedTree: async () => ({
      verified: false,
      why: "no gateway is running, so its processes were not inspected",
      processes: [],
    }),
  });
  return {
    acpList: ({ query = {} } = {}) =>
      reading.acpList({ params: {}, query: contract.acpList.query.parse(query), body }, asking),
    acpShow: ({ params = NO_SESSION } = {}) => reading.acpShow({ params, query: {}, body }, asking),
    acpHistory: ({ params = NO_SESSION, query = {} } = {}) =>
      reading.acpHistory({ params, query: contract.acpHistory.query.parse(query), body }, asking),
    acpWatch: ({ params = NO_SESSION, query = {} } = {}) =>
      reading.acpWatch({ params, query: contract.acpWatch.query.parse(query), body }, asking),
    acpPermissions: ({ query = {} } = {}) =>
      reading.acpPermissions({ params: {}, query: contract.acpPermissions.query.parse(query), body }, asking),
  };
}

const NO_SESSION = { id: "" };

/** The store of an empty state directory. */
const EMPTY_ACP_STORE: Parameters<typeof createAcpQueries>[0]["store"] = {
  getAcpSession: async () => null,
  getAcpTurn: async () => null,
  listAcpSessions: async () => [],
  listAcpTurns: async () => [],
  listAcpUpdates: async () => [],
  listAcpPermissionRequests: async () => [],
};

/** Queries of tasks for the operator, who may read the whole store. */
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
    notRestored,
    authorizer: {
      requireSession: async (_, wanted) => {
        const found = await find(wanted);
        if (found === null) throw new NotFound(`session ${wanted}`);
        return found;
      },
      findSession: (_, wanted) => find(wanted),
      sessionScope: () => null,
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

/** The recorded end of a run or turn; only a gateway knows whether open work still has a process. */
async function recordedWorkStatus(store: TaskStore, { runId, turnId }: TaskRecord): Promise<WorkStatus> {
  const turn = turnId === null ? null : await store.getAcpTurn(turnId);
  const run = turnId !== null || runId === null ? null : await store.getRun(runId);
  const finish = turn !== null ? outcomeOfTurn(turn) : run !== null ? outcomeOfRun(run, null) : null;
  return finish === null ? { state: "unknown" } : { state: "ended", finish };
}

const NO_TASK = { id: "" };

/** The store of an empty state directory. */
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

/** Answers as a gateway would, from the state directory. */
export async function openOfflineReader(home: string): Promise<ReadClient> {
  const directory = await findStateDirectory(home);
  const { store, unread } = await openStoreForReading(directory?.storePath ?? null).then(
    (opened) => ({ store: opened, unread: null }),
    (error: unknown) => {
      if (!(error instanceof Error) || !isStoreFailure(error)) throw error;
      return { store: null, unread: error };
    },
  );
  // The local copy has only records of a shared store.
  const localCopy = directory === null ? null : new FileRunCopy(localCopyDirectory(directory.home));
  const host = directory === null ? null : await openLocalObserver(directory);
  const getRun = async (runId: string): Promise<RunRecord | null> => {
    if (unread === null) return (await store?.getRun(runId)) ?? null;
    const told = (await localCopy?.get(runId)) ?? null;
    if (told === null) throw unread;
    return told.record;
  };
  const requireRecord = async (runId: string): Promise<RunRecord> => {
    const record = await getRun(runId);
    if (record === null) throw new RunNotFound(runId);
    return record;
  };
  const reader: RunReader = {
    run: () => null,
    getRun,
    readOutput: async (runId: string, stream: StreamName, options?: ReadOptions) => {
      const address = runAddressOf(await requireRecord(runId));
      if (host === null) throw new RunNotFound(runId);
      return readOutput(host, address, stream, options);
    },
  };
  const here = directory === null ? null : await readStateId(directory.home);
  const instances = host === null ? new Set<string>() : await localInstanceIds(host);
  const runOf = async (params: { readonly runId: string } | undefined): Promise<RunRecord> => {
    const record = await requireRecord(params?.runId ?? "");
    if (store?.shared !== true || !isOfOtherState(record, here, instances)) return record;
    throw new PeerUnreachable(
      record.runId,
      await findOwningGateway(store, record),
      "no gateway runs here that could forward the request (`holdfast gateway start` starts one)",
      { missing: "here" },
    );
  };
  const findSession = async (wanted: string): Promise<SessionRecord | null> => {
    if (unread !== null) throw unread;
    return (
      (looksLikeSessionId(wanted) ? await store?.getSession(wanted) : await store?.getSessionByKey(wanted)) ??
      null
    );
  };
  const sessionOf = async (params: { readonly id: string } | undefined) => {
    const wanted = params?.id ?? "";
    const session = await findSession(wanted);
    if (store === null || session === null) throw new NotFound(`session ${wanted}`);
    return { from: store, session };
  };
  const notRestored = async (): Promise<readonly UnrestoredRecord[]> =>
    directory === null ? [] : readUnrestored(localCopyDirectory(directory.home));
  const never = new AbortController().signal;
  const asking: RequestContext = {
    requester: { kind: "operator", actor: "operator" },
    disconnected: never,
    enqueue: (work) => work(),
    countStream: () => ({ [Symbol.dispose]: () => undefined }),
  };
  return {
    client: {
      listRuns: async ({ query = {} } = {}) => {
        const { limit, cursor, ...heard } = contract.listRuns.query.parse(query);
        const after = cursor === undefined ? {} : { after: cursor };
        const filter = { ...runFilter(heard), ...after, limit };
        if (unread !== null) {
          const known = localCopy === null ? [] : await listCopiedRuns(localCopy, filter);
          return { runs: [...known], next: null, storeAway: unread.message };
        }
        const runs = (await store?.listRuns(filter)) ?? [];
        const last = runs.length < limit ? undefined : runs.at(-1);
        return { runs: [...runs], next: last === undefined ? null : runCursor(last), storeAway: null };
      },
      poll: async ({ params, query = {} } = {}) =>
        pollRun(reader, await runOf(params), contract.poll.query.parse(query), asking),
      log: async ({ params, query = {} } = {}) =>
        readLog(reader, await runOf(params), contract.log.query.parse(query)),
      screen: async ({ params } = {}) => {
        await using screens = new ScreenCache(reader);
        const { rows, ...rest } = await screenshot(screens, await runOf(params));
        return { ...rest, rows: [...rows] };
      },
      listSessions: async ({ query = {} } = {}) => {
        if (unread !== null) throw unread;
        const { all, limit } = contract.listSessions.query.parse(query);
        const open = all === true ? {} : { open: true };
        return { sessions: [...((await store?.listSessions({ ...open, limit })) ?? [])] };
      },
      sessionStatus: async ({ params } = {}) => {
        const { from, session } = await sessionOf(params);
        return readSessionStatus(session, from, from);
      },
      sessionHistory: async ({ params, query = {} } = {}) => {
        const { from, session } = await sessionOf(params);
        return readSessionHistory(session, from, from, contract.sessionHistory.query.parse(query));
      },
      sessionInbox: async ({ params, query = {} } = {}) => {
        const { from, session } = await sessionOf(params);
        return readSessionInbox(session, from, contract.sessionInbox.query.parse(query).limit);
      },
      ...rejectIfUnread(offlineTaskQueries(store, findSession, asking, notRestored), unread),
      ...rejectIfUnread(
        offlineAcpQueries(store, async (id) => (await sessionOf({ id })).session, asking),
        unread,
      ),
    },
    async [Symbol.asyncDispose]() {
      await host?.[Symbol.asyncDispose]();
      await store?.[Symbol.asyncDispose]();
    },
  };
}

/** Returns the same verbs. If the store cannot be read, each rejects instead of answering that there is no record. */
function rejectIfUnread<Verbs extends object>(verbs: Verbs, unread: Error | null): Verbs {
  if (unread === null) return verbs;
  const refuse = (): Promise<never> => Promise.reject(unread);
  return Object.fromEntries(Object.keys(verbs).map((verb) => [verb, refuse])) as Verbs;
}
