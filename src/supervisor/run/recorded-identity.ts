import type { BoundaryFacts, CgroupRef, RunAddress, Welcome } from "../../anchor/host.js";
import type { RunBoundary, RunRecord } from "../../model/run.js";
import type { MachineIdentity, ProcessIdentity } from "../../model/process.js";
import type { RunChange } from "../../store/runs/contract.js";

/** The recorded identities of a run, which verify its remaining processes when its anchor does not answer. */
export interface RecordedIdentity {
  readonly run: RunAddress;
  readonly leaseId: string;
  /** Where its processes ran: their pids are valid only there. */
  readonly machine: MachineIdentity;
  readonly anchor: ProcessIdentity | null;
  readonly root: ProcessIdentity | null;
  readonly boundary: RunBoundary | null;
  readonly graceMs: number;
  /** The file its anchor was started from. */
  readonly anchorPath: string;
}

/** The run's cgroup with the inode that identifies it. */
export function cgroupOf({ boundary }: { readonly boundary: RunBoundary | null }): CgroupRef | null {
  if (boundary === null || boundary.cgroup === null || boundary.cgroupInode === null) return null;
  return { path: boundary.cgroup, inode: boundary.cgroupInode };
}

export function runAddressOf({ originInstanceId, runId }: RunRecord): RunAddress {
  return { instanceId: originInstanceId, runId };
}

export function toRunBoundary({ tier, cgroup, cgroupInode, tierNote }: BoundaryFacts): RunBoundary {
  if (/^job\b/.test(tier) && cgroup !== null)
    return { cgroup: null, cgroupInode: null, jobId: cgroup, note: tierNote };
  return { cgroup, cgroupInode, note: tierNote };
}

/** The change that records the processes of a run. The root leads its own session, hence its own process group. */
export function gatedChange(
  { anchor, root, boundary }: Welcome,
  processGroupId: number = root.pid,
): Extract<RunChange, { to: "gated" }> {
  const { tier } = boundary;
  return { to: "gated", anchor, root, processGroupId, boundary: toRunBoundary(boundary), tier };
}
