import type { ProcessEvidence } from "../../anchor/host.js";
import type { MarkedProcess } from "../../anchor/inspect/by-marker.js";
import type { UnmanagedProfile } from "../../config/schema.js";

export interface OwnerState {
  /** `ours`: it belongs to a run. `unknown` counts as alive. */
  readonly kind: "gone" | "alive" | "unknown" | "ours";
  readonly why: string;
}

export interface OwnerCheck {
  readonly profile: UnmanagedProfile;
  readonly process: MarkedProcess;
  /** The run that it is proven to belong to; null: none. */
  readonly runId: string | null;
  /** All processes with the marker of the profile. */
  readonly carriers: readonly MarkedProcess[];
  /** Process 1 is that of the system, not of a container. */
  readonly wholeMachine: boolean;
  /** The live process with the recorded pid. */
  readonly claimed: ReadonlyMap<string, ProcessEvidence | null>;
}

/** The pid file does not exist. A file that cannot be read, or is being written, proves nothing. */
export const PID_FILE_MISSING = "";

/** Whether the tool that marked a process is gone, by pids and ancestry, never by a name or a command line. */
export function checkOwner({
  profile,
  process,
  runId,
  carriers: processes,
  claimed,
  wholeMachine,
}: OwnerCheck): OwnerState {
  const ours = runId ?? process.runId;
  if (ours !== null) return { kind: "ours", why: `it belongs to run ${ours}` };
  // There is no identity to verify when it is ended.
  if (process.value === "") return { kind: "unknown", why: `${profile.marker} is empty` };
  const { owner } = profile;
  if (owner === "orphaned") return checkOrphaned(process, processes, wholeMachine);
  if (owner === "orphaned-in-container") return checkOrphaned(process, processes, true);
  if ("pid-file" in owner) {
    const [[pid, evidence] = []] = claimed;
    if (pid === undefined) return { kind: "unknown", why: `${owner["pid-file"]} does not name its owner` };
    if (pid === PID_FILE_MISSING) return { kind: "gone", why: `${owner["pid-file"]} is not there` };
    return checkNamedOwner(process, pid, evidence ?? null, owner["pid-file"]);
  }
  const variable = owner["pid-variable"];
  const pid = process.others[variable] ?? "";
  if (!claimed.has(pid)) return { kind: "unknown", why: `${variable} does not name its owner` };
  return checkNamedOwner(process, pid, claimed.get(pid) ?? null, variable);
}

/** The topmost process with the marker was started by the tool; if its parent is process 1, the tool is gone. */
function checkOrphaned(
  process: MarkedProcess,
  processes: readonly MarkedProcess[],
  wholeMachine: boolean,
): OwnerState {
  const byPid = new Map(processes.map((each) => [each.identity.pid, each] as const));
  let top = process;
  for (let steps = 0; steps < processes.length; steps++) {
    const parent = byPid.get(top.parentPid);
    if (parent === undefined || parent.value !== process.value) break;
    top = parent;
  }
  const { pid } = top.identity;
  // In a container the tool itself may be process 1: its children would look like orphans.
  if (top.parentPid === 1 && !wholeMachine)
    return {
      kind: "unknown",
      why: `the parent of ${pid} is process 1, which in a container may be its owner`,
    };
  if (top.parentPid === 1)
    return {
      kind: "gone",
      why: `${pid === process.identity.pid ? "it" : `its ancestor ${pid}`} was orphaned: its parent is process 1`,
    };
  return { kind: "alive", why: `the parent of ${pid} is process ${top.parentPid}` };
}

function checkNamedOwner(
  process: MarkedProcess,
  pid: string,
  evidence: ProcessEvidence | null,
  by: string,
): OwnerState {
  if (evidence === null || !evidence.alive)
    return { kind: "gone", why: `process ${pid}, named by ${by}, is gone` };
  // A parent is older than its child.
  if (evidence.identity.startTime > process.identity.startTime)
    return { kind: "gone", why: `the number ${pid}, named by ${by}, has been given to a younger process` };
  return { kind: "alive", why: `process ${pid}, named by ${by}, lives` };
}
