import { isatty } from "node:tty";
import { notice } from "../print/stderr.js";
import { openReadClient } from "../client/read-client.js";
import { readKnownHosts, type KnownHosts } from "../client/known-hosts.js";
import { toJson } from "../json.js";
import { paletteFor } from "../print/palette.js";
import { runTable } from "../runs/list.js";
import { print } from "../print/stdout.js";
import { openStoreRunView } from "../client/run-view.js";

export interface ProcessListRequest {
  readonly all: boolean;
  readonly limit: number;
  readonly json: boolean;
}

/** What the one who asks may see: runs that go on and runs that have ended, but for those that were hidden. */
export async function printVisibleRuns({ all, limit, json }: ProcessListRequest): Promise<number> {
  await using reader = await openReadClient();
  const { runs, storeAway } = await reader.client.listRuns({
    query: { all: "1", limit, ...(all ? { hidden: "1" } : {}) },
  });
  if (json) print(toJson(runs, 2));
  else if (runs.length === 0) notice("there are no runs to be seen", "dim");
  else {
    const width = isatty(1) ? process.stdout.columns : null;
    const hosts = typeof storeAway === "string" ? null : await readHostsIfPossible();
    print(`${runTable(runs, Date.now(), width, paletteFor(1), null, hosts).join("\n")}\n`);
  }
  // A gateway of an earlier version does not send storeAway.
  if (typeof storeAway === "string")
    notice(`the store cannot be read, so only runs of this host are listed: ${storeAway}`, "yellow");
  return 0;
}

/** Names only: who cannot read the store sees the runs all the same. */
async function readHostsIfPossible(): Promise<KnownHosts | null> {
  try {
    await using store = await openStoreRunView();
    return await readKnownHosts(store);
  } catch {
    return null;
  }
}
