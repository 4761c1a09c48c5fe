import type { RunRecord } from "../../model/run.js";
import { viewRunsOfGateway } from "../client/view-runs-of-gateway.js";
import { KnownHosts } from "../client/store-hosts.js";
import { notice } from "../print/errors-and-notices.js";
import { ownerWarning, type OwnerWarning } from "../print/run-status.js";
import { terminalWidth } from "../print/table.js";
import { paletteFor } from "../print/colours-and-progress.js";
import { print, toJson } from "../print/write-output.js";
import { type ListedRuns, type ListRunsRequest, runTable } from "./run-table.js";

export async function printRuns(request: ListRunsRequest): Promise<number> {
  const { all, state, limit, json } = request;
  const open = state === undefined && all !== true;
  const listed = (await listFromGateway(request)) ?? (await listFromStore(request));
  const { found, hosts, observer } = listed;
  const shown = found.slice(0, limit);
  if (json === true) {
    const named = shown.map((record) => ({ ...record, hostName: hosts.nameOf(record.hostId) }));
    print(toJson(named, 2));
    return 0;
  }
  if (shown.length > 0) {
    const warningOf = (record: RunRecord): OwnerWarning | null =>
      observer === null ? null : ownerWarning(record, observer);
    print(`${runTable(shown, Date.now(), terminalWidth(), paletteFor(1), warningOf, hosts).join("\n")}\n`);
  } else notice(open ? "no run is open; --all lists ended runs" : "no run matches", "dim");
  if (found.length > limit) notice("there are more runs; --limit lists more", "dim");
  return 0;
}

/** Null: the gateway does not answer, or cannot select these runs. */
async function listFromGateway({
  all,
  state,
  label,
  host,
  limit,
}: ListRunsRequest): Promise<ListedRuns | null> {
  if (state !== undefined || label !== undefined || host !== undefined) return null;
  const view = await viewRunsOfGateway({ all: all === true, processes: false, limit: limit + 1 });
  if (view === null) return null;
  const { runs, hosts, machine, now, shared } = view;
  return { found: runs, hosts: new KnownHosts(hosts), observer: { here: machine, now, shared } };
}

async function listFromStore(request: ListRunsRequest): Promise<ListedRuns> {
  const { listRunsOfStore } = await import("./list-from-store.js");
  return listRunsOfStore(request);
}
