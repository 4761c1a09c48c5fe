import type { CgroupState, InspectOptions, ProcessEvidence } from "../../anchor/host-interface.js";
import { type AnchoredRun, type LiveProcesses, membersOfRun } from "../../anchor/inspect/processes.js";
import type { NativeObserver } from "../../anchor/native-observer.js";
import { MAX_LISTED_PROCESSES } from "../../anchor/protocol/messages.js";
import { errorMessage } from "../../home/errno.js";
import {
  HIDDEN_STATE,
  isComparable,
  isSameMachine,
  isSameProcess,
  type ProcessIdentity,
} from "../../model/process.js";
import type { RunRecord } from "../../model/run.js";
import { cgroupOf } from "../run/recorded-identity.js";

/** The live processes of one run, as far as they can be inspected. */
export interface RunProcesses {
  /** Evidence about the recorded anchor and leader; null: none is recorded, or it was not inspected. */
  readonly anchor: ProcessEvidence | null;
  readonly root: ProcessEvidence | null;
  /** Verified members: descendants of the anchor or of the verified leader, and processes in the cgroup. */
  readonly processes: LiveProcesses;
  /** Unverified processes with the run's environment marker: any process can set one. */
  readonly claims: readonly ClaimingProcess[];
  /** Why there may be more processes; null: the list is complete. */
  readonly unknown: string | null;
}

interface ClaimingProcess {
  readonly identity: ProcessIdentity;
  readonly command: string;
}

/** The recorded facts of a run; without a record, from its directory. */
export type InspectableRun = AnchoredRun &
  Pick<RunRecord, "leaseId" | "state" | "imported" | "boundary" | "hostId" | "timeNamespace">;

type ProcessInspector = Pick<NativeObserver, "machine" | "inspectTrees" | "listMarkedProcesses">;

/** Why a run's processes cannot be inspected; null: they can. */
function notInspectedReason(record: InspectableRun, host: ProcessInspector): string | null {
  if (record.state === "exited") return "it has ended";
  if (record.imported !== null)
    return "it was imported; `holdfast runs cleanup --run … --dry-run` compares it with what is running";
  if (!isSameMachine(record, host.machine))
    return "it runs on another machine, in another boot or in another pid namespace";
  if (record.anchor !== null && !isComparable(record.anchor, record, host.machine))
    return `it was started in another time namespace (${record.timeNamespace ?? "not recorded"}), and this kernel has no unique process ids to distinguish its processes from others`;
  return null;
}

/**
 * The live processes of these runs. Every view of processes uses this function, so that all of them show the same.
 * `open` holds every open run: an anchor may serve several, and a process in the cgroup of one belongs to no other.
 */
export async function listLiveProcesses(
  host: ProcessInspector,
  records: readonly InspectableRun[],
  open: readonly InspectableRun[] = records,
  options: Pick<InspectOptions, "ports"> = {},
): Promise<ReadonlyMap<string, RunProcesses>> {
  const result = new Map<string, RunProcesses>();
  for (const record of records) result.set(record.runId, notInspected(notInspectedReason(record, host)));
  const here = open.filter((record) => notInspectedReason(record, host) === null);
  const wanted = here.filter(({ runId }) => result.has(runId));
  if (wanted.length === 0) return result;
  try {
    const { evidence, cgroups } = await inspectAll(host, wanted, here, options);
    const marked = await findMarked(host, wanted, evidence);
    const ownerOf = new Map(
      [...cgroups].flatMap(([runId, { members }]) =>
        members.map(({ identity }) => [keyOf(identity), runId] as const),
      ),
    );
    for (const record of wanted) {
      const { runId, leaseId } = record;
      const seen = evidence.get(runId) ?? { anchor: null, root: null };
      const claims = marked.get(leaseId) ?? [];
      result.set(runId, assembleProcesses(record, here, seen, cgroups, ownerOf, claims));
    }
  } catch (error) {
    for (const { runId } of wanted) result.set(runId, notInspected(errorMessage(error)));
  }
  return result;
}

/** The live processes of one run; `open`: every open run. */
export async function listProcessesOfRun(
  host: ProcessInspector,
  record: InspectableRun,
  open: readonly InspectableRun[],
  options: Pick<InspectOptions, "ports"> = {},
): Promise<RunProcesses> {
  const others = open.filter(({ runId }) => runId !== record.runId);
  const found = await listLiveProcesses(host, [record], [record, ...others], options);
  return found.get(record.runId) ?? notInspected(null);
}

export function notInspected(unknown: string | null): RunProcesses {
  return { anchor: null, root: null, processes: [], claims: [], unknown };
}

interface RunEvidence {
  readonly anchor: ProcessEvidence | null;
  readonly root: ProcessEvidence | null;
}

const TRUNCATED_LIST = `only the first ${MAX_LISTED_PROCESSES} of its processes are named`;

interface CgroupMembers {
  readonly members: LiveProcesses;
  /** Null: all of its processes are named. */
  readonly unknown: string | null;
}

/** One query for the processes of `wanted` and the cgroups of `here`. */
async function inspectAll(
  host: ProcessInspector,
  wanted: readonly InspectableRun[],
  here: readonly InspectableRun[],
  options: Pick<InspectOptions, "ports">,
): Promise<{
  readonly evidence: ReadonlyMap<string, RunEvidence>;
  readonly cgroups: ReadonlyMap<string, CgroupMembers>;
}> {
  const processes = wanted.flatMap(({ anchor, root }) => [anchor, root]).filter((each) => each !== null);
  const asked = here.flatMap((record) => {
    const cgroup = cgroupOf(record);
    return cgroup === null ? [] : [{ runId: record.runId, cgroup }];
  });
  const cgroups = asked.map(({ cgroup }) => cgroup);
  const found = await host.inspectTrees(processes, cgroups, options);
  const answers = found.evidence.values();
  const next = (identity: ProcessIdentity | null): ProcessEvidence | null =>
    identity === null ? null : (answers.next().value ?? null);
  return {
    evidence: new Map(
      wanted.map(({ runId, anchor, root }) => [runId, { anchor: next(anchor), root: next(root) }]),
    ),
    cgroups: new Map(
      asked.map(({ runId, cgroup }, at) => {
        const members = found.members[at] ?? [];
        return [
          runId,
          { members, unknown: unnamedReason(cgroup.path, found.states[at] ?? "unknown", members) },
        ];
      }),
    ),
  };
}

/** Why not all processes of a cgroup are named; null: they are. */
function unnamedReason(path: string, state: CgroupState, members: LiveProcesses): string | null {
  if (state === "unknown") return `its cgroup ${path} cannot be inspected from here`;
  if (state === "populated" && members.length === 0)
    return `its cgroup ${path} is not empty, but its processes cannot be named`;
  return members.length >= MAX_LISTED_PROCESSES ? TRUNCATED_LIST : null;
}

/** Marked processes by lease id. Not needed with a verified anchor, which adopts all orphans of the run. */
async function findMarked(
  host: ProcessInspector,
  records: readonly InspectableRun[],
  evidence: ReadonlyMap<string, RunEvidence>,
): Promise<ReadonlyMap<string, readonly ClaimingProcess[]>> {
  const leases = new Set(
    records
      .filter(({ runId, leaseId }) => leaseId !== "" && evidence.get(runId)?.anchor?.matches !== true)
      .map(({ leaseId }) => leaseId),
  );
  const found = new Map<string, ClaimingProcess[]>();
  if (leases.size === 0) return found;
  for (const { identity, value, command } of await host.listMarkedProcesses())
    if (leases.has(value)) found.set(value, [...(found.get(value) ?? []), { identity, command }]);
  return found;
}

function assembleProcesses(
  record: InspectableRun,
  open: readonly InspectableRun[],
  { anchor, root }: RunEvidence,
  cgroups: ReadonlyMap<string, CgroupMembers>,
  ownerOf: ReadonlyMap<string, string>,
  marked: readonly ClaimingProcess[],
): RunProcesses {
  const { runId } = record;
  const cgroup = cgroups.get(runId) ?? null;
  const below =
    anchor?.matches === true
      ? anchor.descendants
      : root?.matches === true
        ? [asMember(root), ...root.descendants]
        : [];
  // The cgroup counts before ancestry, because an orphan has lost its ancestors.
  const descended = membersOfRun(record, open, below).filter(
    ({ identity }) => (ownerOf.get(keyOf(identity)) ?? runId) === runId,
  );
  const known = new Set(descended.map(({ identity }) => keyOf(identity)));
  const inCgroup = (cgroup?.members ?? []).filter(({ identity }) => !known.has(keyOf(identity)));
  const processes = [...descended, ...inCgroup].filter(
    ({ identity }) => !isSameProcess(identity, record.anchor),
  );
  for (const { identity } of processes) known.add(keyOf(identity));
  const claims = marked.filter(
    ({ identity }) =>
      !known.has(keyOf(identity)) && !ownerOf.has(keyOf(identity)) && !isSameProcess(identity, record.anchor),
  );
  const unknown =
    hiddenReason(anchor) ??
    hiddenReason(root) ??
    (below.length >= MAX_LISTED_PROCESSES ? TRUNCATED_LIST : null) ??
    // A verified anchor is an ancestor of all processes of the run.
    (anchor?.matches === true ? null : (cgroup?.unknown ?? null));
  // Without the processes of other runs of the same anchor.
  const own = anchor === null ? null : { ...anchor, descendants: descended };
  return { anchor: own, root, processes, claims, unknown };
}

function hiddenReason(evidence: ProcessEvidence | null): string | null {
  // A unique id verifies a hidden process, too.
  if (evidence?.state !== HIDDEN_STATE || evidence.matches) return null;
  return `process ${evidence.identity.pid} is alive, but cannot be inspected from here`;
}

function keyOf({ pid, startTime }: ProcessIdentity): string {
  return `${pid}:${startTime}`;
}

function asMember(root: ProcessEvidence): LiveProcesses[number] {
  const { identity, parentPid, sessionId, command, state, cpuMs = 0, rssKb = 0 } = root;
  return { identity, parentPid, sessionId, command, state, cpuMs, rssKb, ports: [] };
}
