import { setTimeout } from "node:timers/promises";
import { observeMachineIdentity } from "../../home/machine-identity.js";
import { resolveHome } from "../../home/state-directory.js";
import { OPEN_RUN_STATES } from "../../model/run.js";
import { listLiveProcesses } from "../../supervisor/inspect/live-processes.js";
import { hostFilter, type KnownHosts, readKnownHosts } from "../client/store-hosts.js";
import { type LocalState, openLocalState } from "../../queries/local-state-directory.js";
import { openRunView, type RunView } from "../client/read-runs.js";
import { leaseObserver } from "../print/run-status.js";
import type { PsPrinter, PsRequest, PsSource } from "./ps-table.js";
import type { ListedRuns, ListRunsRequest } from "./run-table.js";
import { printRunsWithoutState } from "./without-state-directory.js";

const REFRESH_MS = 2_000;

/** Lists runs with their live processes. Reads the store and runs the anchor binary; changes nothing. */
export async function showPsOfStore(request: PsRequest, printer: PsPrinter): Promise<number> {
  await using localState = await openLocalState();
  await using found = await openRunView();
  const store = found.view;
  for (;;) {
    const hosts = await readKnownHosts(store);
    printer(
      request,
      store === null
        ? { records: [], hosts, observer: null, processesOf: () => undefined }
        : await readSource(localState, store, hosts, request),
    );
    if (request.watch !== true) {
      await printRunsWithoutState();
      return 0;
    }
    await setTimeout(REFRESH_MS);
  }
}

async function readSource(
  localState: LocalState | null,
  store: RunView,
  hosts: KnownHosts,
  { kind, label = {}, host, all }: PsRequest,
): Promise<PsSource> {
  const listed = await store.listRuns({
    ...(all === true ? {} : { states: OPEN_RUN_STATES, hidden: false }),
    labels: label,
    ...hostFilter(hosts, host),
  });
  const open = listed.filter(({ state }) => state !== "exited");
  const records = listed.filter((record) => kind === undefined || record.kind === kind);
  const here = localState?.host.machine ?? (await observeMachineIdentity(resolveHome()));
  const openRecords = records.filter(({ state }) => state !== "exited");
  const ports = records.some(({ service }) => service !== null);
  // Without a state directory, every run is of another host.
  const trees =
    localState === null ? null : await listLiveProcesses(localState.host, openRecords, open, { ports });
  return {
    records,
    hosts,
    observer: await leaseObserver(store, here),
    processesOf: (runId) => trees?.get(runId),
  };
}

/** The runs of `runs list`, without a gateway. */
export async function listRunsOfStore(request: ListRunsRequest): Promise<ListedRuns> {
  const { all, state, label: labels = {}, host, limit } = request;
  const open = state === undefined && all !== true;
  await using view = await openRunView();
  const store = view.view;
  const hosts = await readKnownHosts(store);
  if (store === null) {
    hostFilter(hosts, host);
    return { found: [], hosts, observer: null };
  }
  const found = await store.listRuns({
    ...(open ? { states: OPEN_RUN_STATES } : {}),
    ...(state === undefined ? {} : { states: [state] }),
    labels,
    ...hostFilter(hosts, host),
    ...(all === true ? {} : { hidden: false as const }),
    limit: limit + 1,
  });
  const observer = await leaseObserver(store, await observeMachineIdentity(resolveHome()));
  return { found, hosts, observer };
}
