import { findAnchor } from "../../anchor/find.js";
import { inspect } from "../../anchor/inspect.js";
import { inspectBoundaries, inspectBoundaryMembers } from "../../anchor/inspect-boundaries.js";
import { LEASE_MARKER, listMarked } from "../../anchor/marked.js";
import { observeMachineIdentity } from "../../store/machine.js";
import type { RunRecord } from "../../store/run-record.js";
import { resolveHome } from "../../store/state-directory.js";
import { notLookedAt, processesOfRun, type RunProcesses } from "../../supervisor/live-processes.js";

/** The live processes of one run; `open`: every open run, of which some may share its anchor. Loads no database. */
export async function lookAtRun(record: RunRecord, open: readonly RunRecord[]): Promise<RunProcesses> {
  const machine = await observeMachineIdentity(resolveHome());
  try {
    const anchorPath = findAnchor();
    const looker = {
      machine,
      inspect: (...[wanted, options]: Wanted<typeof inspect>) => inspect(anchorPath, wanted, options),
      inspectBoundaries: (...[wanted]: Wanted<typeof inspectBoundaries>) =>
        inspectBoundaries(anchorPath, wanted),
      boundaryMembers: (...[wanted, options]: Wanted<typeof inspectBoundaryMembers>) =>
        inspectBoundaryMembers(anchorPath, wanted, options),
      markedProcesses: () => listMarked(anchorPath, LEASE_MARKER),
    };
    return await processesOfRun(looker, record, open, { ports: record.service !== null });
  } catch (error) {
    return notLookedAt(error instanceof Error ? error.message : String(error));
  }
}

/** All but the path of the binary. */
type Wanted<Asks extends (anchorPath: string, ...rest: never[]) => unknown> =
  Parameters<Asks> extends [string, ...infer Rest] ? Rest : never;
