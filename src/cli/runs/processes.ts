import { findAnchorBinary } from "../../anchor/binary/find.js";
import { inspectProcesses } from "../../anchor/inspect/processes.js";
import { inspectCgroups, listCgroupMembers } from "../../anchor/inspect/cgroups.js";
import { LEASE_MARKER, listMarkedProcesses } from "../../anchor/inspect/by-marker.js";
import { observeMachineIdentity } from "../../home/machine-identity.js";
import type { RunRecord } from "../../model/run.js";
import { resolveHome } from "../../home/state-directory.js";
import {
  notInspected,
  listProcessesOfRun,
  type RunProcesses,
} from "../../supervisor/inspect/live-processes.js";

/** The live processes of one run; `open`: every open run, of which some may share its anchor. Loads no database. */
export async function inspectRun(record: RunRecord, open: readonly RunRecord[]): Promise<RunProcesses> {
  const machine = await observeMachineIdentity(resolveHome());
  try {
    const anchorPath = findAnchorBinary();
    const inspector = {
      machine,
      inspectProcesses: (...[wanted, options]: InspectArguments<typeof inspectProcesses>) =>
        inspectProcesses(anchorPath, wanted, options),
      inspectCgroups: (...[wanted]: InspectArguments<typeof inspectCgroups>) =>
        inspectCgroups(anchorPath, wanted),
      listCgroupMembers: (...[wanted, options]: InspectArguments<typeof listCgroupMembers>) =>
        listCgroupMembers(anchorPath, wanted, options),
      listMarkedProcesses: () => listMarkedProcesses(anchorPath, LEASE_MARKER),
    };
    return await listProcessesOfRun(inspector, record, open, { ports: record.service !== null });
  } catch (error) {
    return notInspected(error instanceof Error ? error.message : String(error));
  }
}

/** All but the path of the binary. */
type InspectArguments<Asks extends (anchorPath: string, ...rest: never[]) => unknown> =
  Parameters<Asks> extends [string, ...infer Rest] ? Rest : never;
