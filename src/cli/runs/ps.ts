import { VIEW_LIMIT, viewRunsOfGateway } from "../client/view-runs-of-gateway.js";
import { KnownHosts } from "../client/store-hosts.js";
import { printPs, type PsPrinter, type PsRequest } from "./ps-table.js";

/** Lists runs with their live processes, as the gateway answers or, without one, from the store and the anchor binary. */
export async function showPs(request: PsRequest, printer: PsPrinter = printPs): Promise<number> {
  const { watch, label, host } = request;
  const canAsk = watch !== true && label === undefined && host === undefined;
  const view = canAsk
    ? await viewRunsOfGateway({ all: request.all === true, processes: true, limit: VIEW_LIMIT })
    : null;
  if (view === null) {
    const { showPsOfStore } = await import("./list-from-store.js");
    return showPsOfStore(request, printer);
  }
  const { runs, hosts, machine, now, shared, processes, withoutState } = view;
  printer(request, {
    records: runs,
    hosts: new KnownHosts(hosts),
    observer: { here: machine, now, shared },
    processesOf: (runId) => processes?.[runId],
  });
  if (withoutState.length > 0) {
    const { printWithoutState } = await import("./without-state-directory.js");
    printWithoutState(withoutState);
  }
  return 0;
}
