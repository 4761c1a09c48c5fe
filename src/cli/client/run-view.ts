import { setTimeout } from "node:timers/promises";
import { databaseUrl } from "../../config/database-url.js";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable, StoreAway } from "../../errors.js";
import { reachGateway } from "../../gateway/locate.js";
import { resolveHome } from "../../home/state-directory.js";
import { findStateDirectory } from "../../store/open-state-directory.js";
import { FileRunCopy, listCopiedRuns, localCopyDirectory } from "../../store/local-copy/run-copy.js";
import * as store from "../../store/open.js";
import { isStoreFailure } from "../../store/open.js";
import { notice } from "../print/stderr.js";
import { connectForReading } from "./connect.js";
import { sessionToken } from "./requester.js";
import type { RunView } from "./session-run-view.js";

/**
 * The store, read-only; null: nothing was ever recorded, and no database is loaded. For a session, the view that its
 * gateway gives.
 */
export async function openStoreRunView(): Promise<RunView | null> {
  if (sessionToken() === null) {
    const directory = await findStateDirectory(resolveHome());
    return store.openStoreForReading(directory?.storePath ?? null);
  }
  const running = await connectForReading();
  if (running === null) throw new NoGatewayForSession();
  const { sessionRunView } = await import("./session-run-view.js");
  return sessionRunView(running.client);
}

/** A view of runs. `unread`: why it has only the runs of this host; null: it has all runs. */
export interface OpenedRunView extends AsyncDisposable {
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
    super(`${why}, and only a gateway can say what this session may see; nothing was done`);
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
