import type { StreamName } from "../../anchor/host.js";
import { NotFound, PeerUnreachable, RunNotFound } from "../../errors.js";
import { contract } from "../../gateway/contract/contract.js";
import { logOf } from "../../gateway/handlers/log.js";
import { pollRun } from "../../gateway/handlers/poll.js";
import { filterOf, type RunReader } from "../../gateway/handlers/run-reader.js";
import { farGateway } from "../../gateway/peers/whereabouts.js";
import { inboxOf } from "../../gateway/handlers/session-inbox.js";
import { historyOf, statusOf } from "../../gateway/handlers/session-told.js";
import { looksLikeSessionId } from "../../sessions/ids.js";
import { Screens } from "../../gateway/screens.js";
import { screenshot, seemsToWait } from "../../gateway/handlers/terminal.js";
import { openStoreForReading } from "../../store/open.js";
import type { RunRecord } from "../../store/run-record.js";
import type { SessionRow } from "../../store/session-record.js";
import { observeStateId } from "../../store/state-id.js";
import { findStateDirectory } from "../../store/state-directory.js";
import type { ReadOptions } from "../../supervisor/api.js";
import { readOutput } from "../../supervisor/output.js";
import { addressOf } from "../../supervisor/reconcile/look.js";
import { isOfAnother, localInstances } from "../operator/elsewhere.js";
import { observe } from "../operator/observer.js";
import type { Look } from "./look.js";
import { readAcpLocally } from "./read-acp-locally.js";
import { readTasksLocally } from "./read-tasks-locally.js";

/** What a gateway would answer, from what lies in its state directory. */
export async function readLocally(home: string): Promise<Look> {
  const directory = await findStateDirectory(home);
  const store = await openStoreForReading(directory?.storePath ?? null);
  const host = directory === null ? null : await observe(directory);
  const must = async (runId: string): Promise<RunRecord> => {
    const record = (await store?.getRun(runId)) ?? null;
    if (record === null) throw new RunNotFound(runId);
    return record;
  };
  const reader: RunReader = {
    run: () => null,
    getRun: async (runId) => (await store?.getRun(runId)) ?? null,
    readOutput: async (runId: string, stream: StreamName, options?: ReadOptions) => {
      const address = addressOf(await must(runId));
      if (host === null) throw new RunNotFound(runId);
      return readOutput(host, address, stream, options);
    },
  };
  const here = directory === null ? null : await observeStateId(directory.home);
  const instances = host === null ? new Set<string>() : await localInstances(host);
  const runOf = async (params: { readonly runId: string } | undefined): Promise<RunRecord> => {
    const record = await must(params?.runId ?? "");
    if (store?.shared !== true || !isOfAnother(record, here, instances)) return record;
    throw new PeerUnreachable(
      record.runId,
      await farGateway(store, record),
      "no gateway runs here that could ask it (`holdfast gateway start` starts one)",
      { missing: "here" },
    );
  };
  const findSession = async (wanted: string): Promise<SessionRow | null> =>
    (looksLikeSessionId(wanted) ? await store?.getSession(wanted) : await store?.getSessionByKey(wanted)) ??
    null;
  const sessionOf = async (params: { readonly id: string } | undefined) => {
    const wanted = params?.id ?? "";
    const session = await findSession(wanted);
    if (store === null || session === null) throw new NotFound(`session ${wanted}`);
    return { from: store, session };
  };
  const never = new AbortController().signal;
  const asking = { requester: { kind: "operator", actor: "operator" }, gone: never } as const;
  return {
    client: {
      listRuns: async ({ query = {} } = {}) => {
        const { limit, ...heard } = contract.listRuns.query.parse(query);
        return { runs: [...((await store?.listRuns({ ...filterOf(heard), limit })) ?? [])] };
      },
      poll: async ({ params, query = {} } = {}) =>
        pollRun(reader, await runOf(params), contract.poll.query.parse(query), asking, seemsToWait),
      log: async ({ params, query = {} } = {}) =>
        logOf(reader, await runOf(params), contract.log.query.parse(query)),
      screen: async ({ params } = {}) => {
        await using screens = new Screens(reader);
        const { rows, ...rest } = await screenshot(screens, await runOf(params));
        return { ...rest, rows: [...rows] };
      },
      listSessions: async ({ query = {} } = {}) => {
        const { all, limit } = contract.listSessions.query.parse(query);
        const open = all === true ? {} : { open: true };
        return { sessions: [...((await store?.listSessions({ ...open, limit })) ?? [])] };
      },
      sessionStatus: async ({ params } = {}) => {
        const { from, session } = await sessionOf(params);
        return statusOf(session, from, from);
      },
      sessionHistory: async ({ params, query = {} } = {}) => {
        const { from, session } = await sessionOf(params);
        return historyOf(session, from, from, contract.sessionHistory.query.parse(query));
      },
      sessionInbox: async ({ params, query = {} } = {}) => {
        const { from, session } = await sessionOf(params);
        return inboxOf(session, from, contract.sessionInbox.query.parse(query).limit);
      },
      ...readTasksLocally(store, findSession, asking),
      ...readAcpLocally(store, async (id) => (await sessionOf({ id })).session, asking),
    },
    async [Symbol.asyncDispose]() {
      await host?.[Symbol.asyncDispose]();
      await store?.[Symbol.asyncDispose]();
    },
  };
}
