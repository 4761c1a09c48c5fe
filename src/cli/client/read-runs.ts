import { setTimeout } from "node:timers/promises";
import type { GatewayClient } from "../../api/client.js";
import type { ResponseOf } from "../../api/contract.js";
import { databaseUrl } from "../../config/database-url.js";
import { defaults } from "../../defaults.js";
import { BadInput, GatewayUnreachable, type RunNotFound, StoreAway } from "../../errors.js";
import { reachGateway } from "../../gateway/locate-gateway.js";
import { resolveHome } from "../../home/state-directory.js";
import type { RunEvent } from "../../model/run-event.js";
import { OPEN_RUN_STATES, type RunRecord } from "../../model/run.js";
import {
  FileRunCopy,
  listCopiedRuns,
  localCopyDirectory,
  matchesRunFilter,
} from "../../store/local-copy/run-copy.js";
import { isStoreFailure, openStoreForReading } from "../../store/open.js";
import { findStateDirectory } from "../../store/open-state-directory.js";
import type { EventFilter } from "../../store/runs/contract.js";
import type { ReadStore } from "../../store/store.js";
import { NAME_LABEL } from "../../model/enums.js";
import { notice } from "../print/errors-and-notices.js";
import { connectForReading } from "./connect.js";
import { sessionToken } from "./requester.js";

/** The reads of runs that commands use. */
export type RunView = Pick<
  ReadStore,
  | "getRun"
  | "findRuns"
  | "listRuns"
  | "listEvents"
  | "eventsReach"
  | "listHosts"
  | "shared"
  | "now"
  | typeof Symbol.asyncDispose
>;

/** The largest page of the API. */
const PAGE_LIMIT = 1_000;

/** The runs that a session may see, through its gateway: the newest thousand, and any by its id. */
function sessionRunView(client: GatewayClient): RunView {
  const getRun = (runId: string): Promise<RunRecord | null> =>
    client.getRun({ params: { runId } }).catch((error: unknown) => {
      if (["RUN_NOT_FOUND", "BAD_INPUT"].includes((error as RunNotFound).code)) return null;
      throw error;
    });
  /** Reads page after page: a page of large records has fewer than `limit`. */
  const all = async (): Promise<readonly RunRecord[]> => {
    const runs: RunRecord[] = [];
    for (let cursor: string | null = null; ;) {
      const query = { all: "1", hidden: "1", limit: PAGE_LIMIT - runs.length } as const;
      const page: ResponseOf<"listRuns"> = await client.listRuns({
        query: cursor === null ? query : { ...query, cursor },
      });
      runs.push(...page.runs);
      cursor = page.next;
      if (cursor === null || runs.length >= PAGE_LIMIT) return runs;
    }
  };
  return {
    getRun,
    findRuns: async (prefix, limit) => {
      const exact = await getRun(prefix);
      if (exact !== null) return [exact];
      return (await all()).filter(({ runId }) => runId.startsWith(prefix)).slice(0, limit);
    },
    listRuns: async (filter) =>
      (await all()).filter((run) => matchesRunFilter(run, filter)).slice(0, filter.limit),
    listEvents: async (filter) => {
      const { hostIds } = filter;
      if (hostIds === undefined) return sessionEvents(client, filter);
      const there = new Set(
        (await all()).filter((run) => matchesRunFilter(run, { hostIds })).map(({ runId }) => runId),
      );
      return sessionEvents(client, filter, ({ runId }) => there.has(runId));
    },
    // The gateway notices a store that was rolled back.
    eventsReach: async () => null,
    // A session sees only the hosts of its runs.
    listHosts: async () =>
      [...new Set((await all()).map(({ hostId }) => hostId))].map((hostId) => ({
        hostId,
        name: "",
        platform: "",
        firstSeenAt: 0,
        lastSeenAt: 0,
      })),
    // The gateway judges leases: here none counts as expired.
    shared: true,
    now: async () => 0,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

async function sessionEvents(
  client: GatewayClient,
  { after = 0, runId, limit = PAGE_LIMIT, newestFirst = false }: EventFilter,
  wanted: (event: RunEvent) => boolean = () => true,
): Promise<readonly RunEvent[]> {
  const found: RunEvent[] = [];
  for (let from = after; ;) {
    const page = await client.events({
      query: { after: from, limit: PAGE_LIMIT, ...(runId === undefined ? {} : { run: runId }) },
    });
    found.push(...(page.events as unknown as RunEvent[]).filter(wanted));
    // Only the newest events are kept in memory.
    if (newestFirst) found.splice(0, Math.max(0, found.length - limit));
    if (page.after === from || (!newestFirst && found.length >= limit)) break;
    from = page.after;
  }
  return newestFirst ? found.toReversed() : found.slice(0, limit);
}

/**
 * The store, read-only; null: nothing was ever recorded, and no database is loaded. For a session, the view that its
 * gateway gives.
 */
export async function openStoreRunView(): Promise<RunView | null> {
  if (sessionToken() === null) {
    const directory = await findStateDirectory(resolveHome());
    return openStoreForReading(directory?.storePath ?? null);
  }
  const running = await connectForReading();
  if (running === null) throw new NoGatewayForSession();
  return sessionRunView(running.client);
}

/** A view of runs. `unread`: why it has only the runs of this host; null: it has all runs. */
interface OpenedRunView extends AsyncDisposable {
  /** Null: nothing has ever been recorded. */
  readonly view: RunView | null;
  readonly unread: Error | null;
}

/**
 * Like `openStoreRunView`, for commands that can work with the runs of this host. It does not wait for a shared store
 * that cannot be read, or that does not answer the gateway of this host.
 */
export async function openRunView(): Promise<OpenedRunView> {
  const home = resolveHome();
  if (sessionToken() !== null || (await databaseUrl()) === null)
    return toOpenedView(await openStoreRunView());
  const opening = openStoreRunView();
  const found = await Promise.race([settle(opening), storeAwayReport(home)]);
  if ("view" in found) return toOpenedView(found.view);
  const { unread } = found;
  if (!isStoreFailure(unread)) throw unread;
  // The store may still open later; then it is closed again.
  void opening.then(
    (late) => late?.[Symbol.asyncDispose](),
    () => undefined,
  );
  notice(`the store cannot be read, so only runs of this host are shown: ${unread.message}`, "yellow");
  return { view: localCopyRunView(home), unread, [Symbol.asyncDispose]: async () => undefined };
}

function toOpenedView(view: RunView | null): OpenedRunView {
  return { view, unread: null, [Symbol.asyncDispose]: async () => view?.[Symbol.asyncDispose]() };
}

type Settled = { readonly view: RunView | null } | { readonly unread: Error };

async function settle(opening: Promise<RunView | null>): Promise<Settled> {
  return opening.then(
    (view) => ({ view }),
    (error: unknown) => ({ unread: error instanceof Error ? error : new Error(String(error)) }),
  );
}

/** Settles only if a running gateway reports that the store does not answer. */
async function storeAwayReport(home: string): Promise<Settled> {
  await setTimeout(defaults.localAnswerMs, undefined, { ref: false });
  const storeAway = (await reachGateway(home).catch(() => null))?.status.storeAway ?? null;
  if (storeAway !== null) return { unread: new StoreAway(home, storeAway) };
  return new Promise(() => undefined);
}

/** A session needs a gateway, which knows what the session may see. */
export class NoGatewayForSession extends GatewayUnreachable {
  constructor(why = "no gateway is running") {
    super(`${why}, and only a gateway knows what this session may see; nothing was done`);
  }
}

/** The runs of this state directory from the local copy of their records: without events and without other hosts. */
function localCopyRunView(home: string): RunView {
  const localCopy = new FileRunCopy(localCopyDirectory(home));
  return {
    getRun: async (runId) => (await localCopy.get(runId))?.record ?? null,
    findRuns: async (prefix, limit) =>
      (await listCopiedRuns(localCopy, {})).filter(({ runId }) => runId.startsWith(prefix)).slice(0, limit),
    listRuns: (filter) => listCopiedRuns(localCopy, filter),
    listEvents: async () => [],
    eventsReach: async () => null,
    listHosts: async () => [],
    // Leases use the store's clock, which cannot be read here, so no lease counts as expired.
    shared: true,
    now: async () => -1,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

/** Rejects if an open run has that name. Two runs started at the same moment can both get it. */
export async function assertNameIsFree(name: string): Promise<void> {
  await using runs = await openRunView();
  const [taken] =
    (await runs.view?.listRuns({ labels: { [NAME_LABEL]: name }, states: OPEN_RUN_STATES, limit: 1 })) ?? [];
  if (taken !== undefined)
    throw new BadInput(
      "name",
      `the open run ${taken.runId} has the name ${name}; stop it first, or use another name. Nothing was started`,
    );
}
