import { isatty } from "node:tty";
import { say } from "../complain.js";
import { openLook } from "../gateway/look.js";
import { readHosts, type Hosts } from "../hosts/hosts.js";
import { toJson } from "../json.js";
import { paletteFor } from "../palette.js";
import { listLines } from "../runs/list.js";
import { print } from "../runs/print.js";
import { openStoreForReading } from "../runs/read-store.js";

export interface ProcessListRequest {
  readonly all: boolean;
  readonly limit: number;
  readonly json: boolean;
}

/** What the one who asks may see: runs that go on and runs that have ended, but for those that were hidden. */
export async function listProcesses({ all, limit, json }: ProcessListRequest): Promise<number> {
  await using look = await openLook();
  const { runs, storeAway } = await look.client.listRuns({
    query: { all: "1", limit, ...(all ? { hidden: "1" } : {}) },
  });
  if (json) print(toJson(runs, 2));
  else if (runs.length === 0) say("there are no runs to be seen", "dim");
  else {
    const width = isatty(1) ? process.stdout.columns : null;
    const hosts = typeof storeAway === "string" ? null : await knownHosts();
    print(`${listLines(runs, Date.now(), width, paletteFor(1), null, hosts).join("\n")}\n`);
  }
  // A gateway of an earlier version does not send storeAway.
  if (typeof storeAway === "string")
    say(`the store cannot be read, so only runs of this host are listed: ${storeAway}`, "yellow");
  return 0;
}

/** Names only: who cannot read the store sees the runs all the same. */
async function knownHosts(): Promise<Hosts | null> {
  try {
    await using store = await openStoreForReading();
    return await readHosts(store);
  } catch {
    return null;
  }
}
