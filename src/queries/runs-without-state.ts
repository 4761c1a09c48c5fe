import { findAnchorBinary } from "../anchor/binary.js";
import {
  findRunsWithoutState,
  type RunWithoutState,
} from "../anchor/inspect/runs-without-state-directory.js";
import { sanitizeLine } from "../text/sanitize.js";

export const CLEANUP_COMMAND = "holdfast runs cleanup --without-state";

/** Live runs whose state directory was removed; only for the operator. Empty where processes cannot be listed. */
export async function listRunsWithoutState(home: string): Promise<readonly RunWithoutState[]> {
  return findRunsWithoutState(findAnchorBinary(), home).catch(() => []);
}

/** The fields that name a run. */
export type NamedRun = Pick<RunWithoutState, "runId" | "instanceId" | "directory" | "anchor" | "processes">;

export function runWithoutStateText({ runId, instanceId, directory, anchor, processes }: NamedRun): string {
  const pids = processes.map(({ identity, command }) => `${identity.pid} ${command}`);
  const where = directory === null ? "no state directory known here" : `${directory}, which was removed`;
  const by = anchor === null ? "" : `, anchor ${anchor.pid}`;
  return sanitizeLine(
    `without a state directory: run ${runId} of instance ${instanceId} (${where}) is alive${by}: ${pids.join(", ") || "no process"}`,
  );
}
