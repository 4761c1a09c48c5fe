import { isatty } from "node:tty";
import { say } from "../complain.js";
import { openLook } from "../gateway/look.js";
import { paletteFor } from "../palette.js";
import { listLines } from "../runs/list.js";
import { print } from "../runs/print.js";

export interface ProcessListRequest {
  readonly all: boolean;
  readonly limit: number;
  readonly json: boolean;
}

/** What the one who asks may see: runs that go on and runs that have ended, but for those that were hidden. */
export async function listProcesses({ all, limit, json }: ProcessListRequest): Promise<number> {
  await using look = await openLook();
  const { runs } = await look.client.listRuns({
    query: { all: "1", limit, ...(all ? { hidden: "1" } : {}) },
  });
  if (json) print(`${JSON.stringify(runs, null, 2)}\n`);
  else if (runs.length === 0) say("there are no runs to be seen", "dim");
  else
    print(
      `${listLines(runs, Date.now(), isatty(1) ? process.stdout.columns : null, paletteFor(1)).join("\n")}\n`,
    );
  return 0;
}
