import type { StreamName } from "../../anchor/host.js";
import { NotFound, PeerUnreachable, RunNotFound } from "../../errors.js";
import { isStoreFailure } from "../../store/store-failure.js";
import { contract } from "../../api/contract.js";
import { readLog } from "../../gateway/handlers/log.js";
import { pollRun } from "../../queries/poll.js";
import { runFilter, runCursor, type RunReader } from "../../queries/runs.js";
import { findOwningGateway } from "../../gateway/peers/locators.js";
import { readSessionInbox } from "../../gateway/handlers/session-inbox.js";
import { readSessionHistory, readSessionStatus } from "../../queries/sessions.js";
import { looksLikeSessionId } from "../../sessions/ids.js";
import { ScreenCache } from "../../queries/screen.js";
import { screenshot, seemsToWaitForInput } from "../../gateway/handlers/terminal.js";
import { FileRunCopy, localCopyDirectory } from "../../store/local-copy/run-copy.js";
import { readUnrestored, type UnrestoredRecord } from "../../store/local-copy/unrestored.js";
import { listCopiedRuns } from "../../store/ledger/list-runs.js";
import { openStoreForReading } from "../../store/open.js";
import type { RunRecord } from "../../model/run.js";
import type { SessionRecord } from "../../model/session.js";
import { readStateId } from "../../store/state-id.js";
import { findStateDirectory } from "../../home/state-directory.js";
import type { ReadOptions } from "../../supervisor/api.js";
import { readOutput } from "../../supervisor/run/output.js";
import { runAddressOf } from "../../supervisor/reconcile/evidence.js";
import { isOfOtherState, localInstanceIds } from "../operator/elsewhere.js";
import { openLocalObserver } from "./local-state.js";
import type { ReadClient } from "./read-client.js";
import { offlineAcpQueries } from "../gateway/read-acp-locally.js";
import { offlineTaskQueries } from "../gateway/read-tasks-locally.js";
import type { RequestContext } from "../../gateway/server/router.js";

/** What a gateway would answer, from what lies in its state directory. */
export async function openOfflineReader(home: string): Promise<ReadClient> {
  const directory = await findStateDirectory(home);
  const { store, unread } = await openStoreForReading(directory?.storePath ?? null).then(
    (opened) => ({ store: opened, unread: null }),
    (error: unknown) => {
      if (!(error instanceof Error) || !isStoreFailure(error)) throw error;
      return { store: null, unread: error };
    },
  );
  // The ledger has copies only of records that were written to a shared store.
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
      "no gateway runs here that could ask it (`holdfast gateway start` starts one)",
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
        pollRun(reader, await runOf(params), contract.poll.query.parse(query), asking, seemsToWaitForInput),
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
