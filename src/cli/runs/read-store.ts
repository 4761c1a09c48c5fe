import { FileLedger, ledgerIn } from "../../store/ledger/file-ledger.js";
import { runsInLedger } from "../../store/ledger/list-runs.js";
import { setTimeout } from "node:timers/promises";
import { defaults } from "../../defaults.js";
import { GatewayUnreachable, StoreAway } from "../../errors.js";
import { isStoreFailure } from "../../store/store-failure.js";
import { reach } from "../../gateway/start.js";
import { databaseAddress } from "../../store/database-address.js";
import * as store from "../../store/open.js";
import { findStateDirectory, resolveHome } from "../../store/state-directory.js";
import { say } from "../complain.js";
import { runningGateway } from "../gateway/connect.js";
import { sessionToken } from "../session-token.js";
import type { RunView } from "../gateway/session-view.js";

/**
 * The store, for looking only; null when nothing has ever been recorded, and then no database is loaded. For a session,
 * what its gateway shows it.
 */
export async function openStoreForReading(): Promise<RunView | null> {
  if (sessionToken() === null) {
    const directory = await findStateDirectory(resolveHome());
    return store.openStoreForReading(directory?.storePath ?? null);
  }
  const running = await runningGateway();
  if (running === null) throw new NoGatewayForSession();
  const { sessionView } = await import("../gateway/session-view.js");
  return sessionView(running.client);
}

/** A view of runs. `unread`: why it has only the runs of this host; null: it has all runs. */
export interface OpenedView extends AsyncDisposable {
  /** Null: nothing has ever been recorded. */
  readonly view: RunView | null;
  readonly unread: Error | null;
}

/**
 * The same for a command that can work with the runs of this host alone. It does not wait for a shared store that
 * cannot be read or does not answer the gateway of this host.
 */
export async function openRunView(): Promise<OpenedView> {
  const home = resolveHome();
  if (sessionToken() !== null || (await databaseAddress()) === null)
    return opened(await openStoreForReading());
  const opening = openStoreForReading();
  const found = await Promise.race([settled(opening), unanswered(home)]);
  if ("view" in found) return opened(found.view);
  const { unread } = found;
  if (!isStoreFailure(unread)) throw unread;
  // The store may still open later; then it is closed again.
  void opening.then(
    (late) => late?.[Symbol.asyncDispose](),
    () => undefined,
  );
  say(`the store cannot be read, so only runs of this host are shown: ${unread.message}`, "yellow");
  return { view: ledgerView(home), unread, [Symbol.asyncDispose]: async () => undefined };
}

function opened(view: RunView | null): OpenedView {
  return { view, unread: null, [Symbol.asyncDispose]: async () => view?.[Symbol.asyncDispose]() };
}

type Settled = { readonly view: RunView | null } | { readonly unread: Error };

async function settled(opening: Promise<RunView | null>): Promise<Settled> {
  return opening.then(
    (view) => ({ view }),
    (error: unknown) => ({ unread: error instanceof Error ? error : new Error(String(error)) }),
  );
}

/** Settles only if a running gateway reports that the store does not answer. */
async function unanswered(home: string): Promise<Settled> {
  await setTimeout(defaults.localAnswerMs, undefined, { ref: false });
  const storeAway = (await reach(home).catch(() => null))?.status.storeAway ?? null;
  if (storeAway !== null) return { unread: new StoreAway(home, storeAway) };
  return new Promise(() => undefined);
}

/** Only a gateway knows what a session may see. */
export class NoGatewayForSession extends GatewayUnreachable {
  constructor(why = "no gateway is running") {
    super(`${why}, and only a gateway can say what this session may see; nothing was done`);
  }
}

/** The runs of this state directory, from its own copy of their records: without events and without other hosts. */
function ledgerView(home: string): RunView {
  const ledger = new FileLedger(ledgerIn(home));
  return {
    getRun: async (runId) => (await ledger.get(runId))?.record ?? null,
    findRuns: async (prefix, limit) =>
      (await runsInLedger(ledger, {})).filter(({ runId }) => runId.startsWith(prefix)).slice(0, limit),
    listRuns: (filter) => runsInLedger(ledger, filter),
    listEvents: async () => [],
    eventsReach: async () => null,
    listHosts: async () => [],
    // Leases use the store's clock, which cannot be read here, so no lease counts as expired.
    shared: true,
    now: async () => -1,
    [Symbol.asyncDispose]: async () => undefined,
  };
}
