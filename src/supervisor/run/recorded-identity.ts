import type { BoundaryFacts, CgroupRef, RunAddress, Welcome } from "../../anchor/host-interface.js";
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

/** The run's cgroup with the inode that identifies it, or its job. */
export function cgroupOf({ boundary }: { readonly boundary: RunBoundary | null }): CgroupRef | null {
  if (boundary === null || boundary.cgroupInode === null) return null;
  const path = boundary.cgroup ?? boundary.jobId ?? null;
  return path === null ? null : { path, inode: boundary.cgroupInode };
}

/** The boundary of a run whose cgroup or job is known from elsewhere. Null: neither is. */
export function boundaryOf(known: CgroupRef, note?: string | null): RunBoundary;
export function boundaryOf(known: CgroupRef | null): RunBoundary | null;
export function boundaryOf(known: CgroupRef | null, note: string | null = null): RunBoundary | null {
  if (known === null) return null;
  const { path, inode } = known;
  // Paths of cgroups are absolute; the name of a job is not.
  if (path.startsWith("/")) return { cgroup: path, cgroupInode: inode, note };
  return { cgroup: null, cgroupInode: inode, jobId: path, note };
}

export function runAddressOf({ originInstanceId, runId }: RunRecord): RunAddress {
  return { instanceId: originInstanceId, runId };
}

export function toRunBoundary({ cgroup, cgroupInode, tierNote }: BoundaryFacts): RunBoundary {
  if (cgroup === null || cgroupInode === null) return { cgroup, cgroupInode, note: tierNote };
  return boundaryOf({ path: cgroup, inode: cgroupInode }, tierNote);
}

/** The change that records the processes of a run. The root leads its own session, hence its own process group. */
export function gatedChange(
  { anchor, root, boundary }: Welcome,
  processGroupId: number = root.pid,
): Extract<RunChange, { to: "gated" }> {
  const { tier } = boundary;
  return { to: "gated", anchor, root, processGroupId, boundary: toRunBoundary(boundary), tier };
}
