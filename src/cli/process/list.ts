import { openReadClient } from "../client/read-client.js";
import { type KnownHosts, readKnownHosts } from "../client/store-hosts.js";
import { openStoreRunView } from "../client/read-runs.js";
import { notice } from "../print/errors-and-notices.js";
import { terminalWidth } from "../print/table.js";
import { paletteFor } from "../print/colours-and-progress.js";
import { print, toJson } from "../print/write-output.js";
import { type ListRunsRequest, runTable } from "../runs/run-table.js";

/** The options of `process list`. */
export type ProcessListRequest = Pick<ListRunsRequest, "all" | "limit" | "json">;

/** Lists the runs that the requester may see, open and ended, without removed ones. */
export async function printVisibleRuns({ all, limit, json }: ProcessListRequest): Promise<number> {
  await using reader = await openReadClient();
  const { runs, storeAway } = await reader.client.listRuns({
    query: { all: "1", limit, ...(all === true ? { hidden: "1" } : {}) },
  });
  if (json === true) print(toJson(runs, 2));
  else if (runs.length === 0) notice("there are no runs", "dim");
  else {
    const hosts = typeof storeAway === "string" ? null : await readHostsIfPossible();
    print(`${runTable(runs, Date.now(), terminalWidth(), paletteFor(1), null, hosts).join("\n")}\n`);
  }
  // A gateway of an earlier version does not send storeAway.
  if (typeof storeAway === "string")
    notice(`the store cannot be read, so only runs of this host are listed: ${storeAway}`, "yellow");
  return 0;
}

/** Host names are optional: a requester that cannot read the store still gets the list. */
async function readHostsIfPossible(): Promise<KnownHosts | null> {
  try {
    await using store = await openStoreRunView();
    return await readKnownHosts(store);
  } catch {
    return null;
  }
}
