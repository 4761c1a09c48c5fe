import type { StreamName } from "../../anchor/host-interface.js";
import { judgeLiveness } from "../../anchor/inspect/liveness.js";
import type { NativeObserver } from "../../anchor/native-observer.js";
import { contract, type RequestContext, type RouteHandlers } from "../../api/contract.js";
import { readConfig } from "../../config/schema.js";
import { NotFound, PeerUnreachable, RunNotFound } from "../../errors.js";
import { readStateId } from "../../home/state-id.js";
import type { AcpSession } from "../../model/acp/session-and-turn.js";
import type { RunRecord } from "../../model/run.js";
import type { SessionRecord } from "../../model/session.js";
import type { TaskRecord } from "../../model/task.js";
import { type AcpQueryVerb, createAcpQueries } from "../../queries/acp.js";
import { withLeases } from "../../queries/agent-runs.js";
import { createAcpRuleQueries } from "../../queries/permission-rules.js";
import { readLog } from "../../queries/output.js";
import { pollRun } from "../../queries/poll.js";
import {
  findOwningGateway,
  resolveSessionOfRuns,
  runCursor,
  runFilter,
  type RunReader,
} from "../../queries/runs.js";
import { ScreenCache, screenshot } from "../../queries/screen.js";
import { readSessionHistory, readSessionInbox, readSessionStatus } from "../../queries/sessions.js";
import { createTaskQueries, type TaskQueryDeps, type TaskQueryVerb } from "../../queries/tasks.js";
import { findSessionByAbbreviation, findSessionByName } from "../../sessions/resolve-session.js";
import { FileRunCopy, listCopiedRuns, localCopyDirectory } from "../../store/local-copy/run-copy.js";
import { readUnrestored, type UnrestoredRecord } from "../../store/local-copy/task-copy.js";
import { isStoreFailure, openStoreForReading } from "../../store/open.js";
import { findStateDirectory } from "../../store/open-state-directory.js";
import type { ReadStore } from "../../store/store.js";
import type { ReadOptions } from "../../supervisor/check-options.js";
import { readOutput } from "../../supervisor/run/output.js";
import { runAddressOf } from "../../supervisor/run/recorded-identity.js";
import { outcomeOfRun, outcomeOfTurn } from "../../tasks/outcome.js";
import { describeAction, type MaintenanceAction, type WorkStatus } from "../../tasks/plan-maintenance.js";
import { planSweep } from "../../tasks/maintenance-pass.js";
import type { ReadApi, ReadClient } from "./connect.js";
import { isOfOtherState, localInstanceIds, openLocalObserver } from "../../queries/local-state-directory.js";

/** The queries of a gateway for the operator, who may read the whole store. */
type OfflineHandlers = Pick<RouteHandlers, keyof ReadApi>;

/** Handlers as the functions of a client. */
function asClient(handlers: OfflineHandlers, context: RequestContext): ReadApi {
  const verbs = Object.entries(handlers) as [
    keyof ReadApi,
    (request: object, context: RequestContext) => unknown,
  ][];
  const client = verbs.map(([verb, handle]) => [
    verb,
    async ({ params = { id: "", runId: "" }, query = {} }: { params?: object; query?: object } = {}) =>
      handle({ params, query: contract[verb].query.parse(query), body: {} }, context),
  ]);
  return Object.fromEntries(client) as ReadApi;
}

type FindSession = (wanted: string, abbreviated?: boolean) => Promise<SessionRecord | null>;

/** True if the agent's process is proven to be gone. */
async function isAgentGone(
  store: ReadStore | null,
  host: NativeObserver | null,
  { runId }: AcpSession,
): Promise<boolean> {
  const record = runId === null ? null : ((await store?.getRun(runId)) ?? null);
  if (record === null || record.state === "exited") return record !== null;
  const { machine } = host ?? {};
  if (host === null || machine === undefined || record.root === null || record.hostId !== machine.hostId)
    return false;
  if (record.bootId !== machine.bootId) return true;
  if (record.pidNamespace !== machine.pidNamespace) return false;
  const [evidence] = await host.inspectProcesses([record.root], { brief: true });
  return judgeLiveness(record.root, record, evidence, machine) === "gone";
}

function offlineAcpQueries(
  store: ReadStore | null,
  host: NativeObserver | null,
  findSession: FindSession,
): Pick<RouteHandlers, AcpQueryVerb> {
  return createAcpQueries({
    store: store ?? EMPTY_STORE,
    sessions: { get: async (id) => (await store?.getSession(id)) ?? null },
    authorizer: { requireSession: requireSession(findSession), sessionScope: () => null },
    stderrOf: () => "",
    questionOf: async () => null,
    isAgentGone: (session) => isAgentGone(store, host, session),
    verifyOwnedTree: async () => ({
      verified: false,
      why: "no gateway is running, so its processes were not inspected",
      processes: [],
    }),
  });
}

function offlineAcpRuleQueries(
  store: ReadStore | null,
  findSession: FindSession,
): Pick<RouteHandlers, "acpRules"> {
  return createAcpRuleQueries({
    store: store ?? { listRememberedRules: async () => [] },
    sessions: { get: async (id) => (await store?.getSession(id)) ?? null },
    authorizer: { requireSession: requireSession(findSession) },
    configuredRules: async () => (await readConfig()).permissions,
  });
}

function offlineTaskQueries(
  store: ReadStore | null,
  findSession: FindSession,
  notRestored: TaskQueryDeps["notRestored"],
): Pick<RouteHandlers, TaskQueryVerb | "maintainTasks"> {
  const from = store ?? EMPTY_STORE;
  const queries = createTaskQueries({
    store: from,
    notRestored,
    authorizer: {
      requireSession: requireSession(findSession),
      findSession: (_, wanted, abbreviated) => findSession(wanted, abbreviated),
      sessionScope: () => null,
      filterVisibleTasks: async (_, _wanted, found) => found,
    },
  });
  return {
    ...queries,
    maintainTasks: async () => {
      const actions: MaintenanceAction[] = [];
      const workStatusOf = (task: TaskRecord): Promise<WorkStatus> => recordedWorkStatus(from, task);
      for await (const some of planSweep({ store: from, workStatusOf, now: Date.now, thorough: true }))
        actions.push(...some);
      return { applied: false, measures: actions.map(describeAction) };
    },
  };
}

function requireSession(findSession: FindSession) {
  return async (_: unknown, wanted: string): Promise<SessionRecord> => {
    const found = await findSession(wanted);
    if (found === null) throw NotFound.session(wanted);
    return found;
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

const OPERATOR_LOOKUP = { ownKey: null, scope: null, canSee: () => true };

/** The store of an empty state directory. */
const EMPTY_STORE: TaskStore & Parameters<typeof createAcpQueries>[0]["store"] = {
  getTask: async () => null,
  getTaskByKey: async () => null,
  findTasks: async () => [],
  listTasks: async () => [],
  listTaskEvents: async () => [],
  listOutbox: async () => [],
  getRun: async () => null,
  findRuns: async () => [],
  listRuns: async () => [],
  getAcpTurn: async () => null,
  getAcpSession: async () => null,
  listAcpSessions: async () => [],
  listAcpTurns: async () => [],
  listAcpUpdates: async () => [],
  listAcpPermissionRequests: async () => [],
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
    const copied = (await localCopy?.get(runId)) ?? null;
    if (copied === null) throw unread;
    return copied.record;
  };
  const requireRecord = async (runId: string): Promise<RunRecord> => {
    const record = await getRun(runId);
    if (record === null) throw new RunNotFound(runId);
    return record;
  };
  const reader: RunReader = {
    run: () => null,
    getRun,
    readOutput: async (run: string | RunRecord, stream: StreamName, options?: ReadOptions) => {
      const record = typeof run === "string" ? await requireRecord(run) : run;
      if (host === null) throw new RunNotFound(record.runId);
      return readOutput(host, runAddressOf(record), stream, options);
    },
  };
  const here = directory === null ? null : await readStateId(directory.home);
  const instances = host === null ? new Set<string>() : await localInstanceIds(host);
  const localRun = async (runId: string): Promise<RunRecord> => {
    const record = await requireRecord(runId);
    if (store?.shared !== true || !isOfOtherState(record, here, instances)) return record;
    throw new PeerUnreachable(
      record.runId,
      await findOwningGateway(store, record),
      "no gateway runs here that could forward the request (`holdfast gateway start` starts one)",
      { missing: "here" },
    );
  };
  const findSession: FindSession = async (wanted, abbreviated) => {
    if (unread !== null) throw unread;
    if (store === null) return null;
    const whole = abbreviated === true ? null : await findSessionByName(store, wanted, OPERATOR_LOOKUP);
    if (whole !== null || abbreviated === false) return whole;
    return findSessionByAbbreviation(store, wanted, OPERATOR_LOOKUP);
  };
  const sessionOf = async (wanted: string) => {
    const session = await findSession(wanted);
    if (store === null || session === null) throw NotFound.session(wanted);
    return { from: store, session };
  };
  const notRestored = async (): Promise<readonly UnrestoredRecord[]> =>
    directory === null ? [] : readUnrestored(localCopyDirectory(directory.home));
  const context: RequestContext = {
    requester: { kind: "operator", actor: "operator" },
    disconnected: new AbortController().signal,
    enqueue: (work) => work(),
    countStream: () => ({ [Symbol.dispose]: () => undefined }),
  };
  const handlers: OfflineHandlers = {
    listRuns: async ({ query: { limit, cursor, ...rest } }) => {
      const scope = await resolveSessionOfRuns(rest, findSession);
      const filter = { ...runFilter(scope), ...(cursor === undefined ? {} : { after: cursor }), limit };
      if (unread !== null) {
        const known = localCopy === null ? [] : await listCopiedRuns(localCopy, filter);
        return { runs: [...known], next: null, storeAway: unread.message };
      }
      const runs = (await store?.listRuns(filter)) ?? [];
      const last = runs.length < limit ? undefined : runs.at(-1);
      return { runs: [...runs], next: last === undefined ? null : runCursor(last), storeAway: null };
    },
    poll: async ({ params, query }) => pollRun(reader, await localRun(params.runId), query, context),
    log: async ({ params, query }) => readLog(reader, await localRun(params.runId), query),
    screen: async ({ params }) => {
      await using screens = new ScreenCache(reader);
      const { rows, ...rest } = await screenshot(screens, await localRun(params.runId));
      return { ...rest, rows: [...rows] };
    },
    listSessions: async ({ query: { all, limit } }) => {
      if (unread !== null) throw unread;
      const open = all === true ? {} : { open: true };
      if (store === null) return { sessions: [] };
      return { sessions: await withLeases(await store.listSessions({ ...open, limit }), store) };
    },
    sessionStatus: async ({ params }) => {
      const { from, session } = await sessionOf(params.id);
      return readSessionStatus(session, from, from);
    },
    sessionHistory: async ({ params, query }) => {
      const { from, session } = await sessionOf(params.id);
      return readSessionHistory(session, from, from, query);
    },
    sessionInbox: async ({ params, query }) => {
      const { from, session } = await sessionOf(params.id);
      return readSessionInbox(session, from, query.limit);
    },
    ...rejectIfUnread(offlineTaskQueries(store, findSession, notRestored), unread),
    ...rejectIfUnread(offlineAcpQueries(store, host, findSession), unread),
    ...rejectIfUnread(offlineAcpRuleQueries(store, findSession), unread),
  };
  return {
    client: asClient(handlers, context),
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
