import type { InspectOptions, ProcessEvidence } from "../anchor/host.js";
import { membersOf, type LiveProcesses, type ServedRun } from "../anchor/members.js";
import type { NativeObserver } from "../anchor/native-host.js";
import { PROCESSES_NAMED } from "../anchor/protocol.js";
import { HIDDEN, isComparable } from "../anchor/seen.js";
import { isSameMachine } from "../store/machine.js";
import { isSame, type ProcessIdentity, type RunRecord } from "../store/run-record.js";
import { cgroupOf } from "./aftermath.js";

/** The live processes of one run, as far as they can be looked at. */
export interface RunProcesses {
  /** Live evidence about the recorded anchor and first process; null: none is recorded, or it was not looked at. */
  readonly anchor: ProcessEvidence | null;
  readonly root: ProcessEvidence | null;
  /** Verified members: below the run's anchor, in its cgroup, or below its verified first process. The anchor is none. */
  readonly processes: LiveProcesses;
  /** Unverified processes that carry the run's marker: any process can set a marker. */
  readonly claims: readonly ClaimingProcess[];
  /** Why there may be processes besides these; null: all were looked at. Empty `processes` mean "none" only with null. */
  readonly unknown: string | null;
}

export interface ClaimingProcess {
  readonly identity: ProcessIdentity;
  readonly command: string;
}

/** A run and what is recorded of its processes; of a run without a record, what its directory says. */
export type TracedRun = ServedRun &
  Pick<RunRecord, "leaseId" | "state" | "imported" | "boundary" | "hostId" | "timeNamespace">;

type Looker = Pick<
  NativeObserver,
  "machine" | "inspect" | "inspectBoundaries" | "boundaryMembers" | "markedProcesses"
>;

/** Why a run's processes are not looked at; null: they are. */
function whyNot(record: TracedRun, host: Looker): string | null {
  if (record.state === "exited") return "it has ended";
  if (record.imported !== null)
    return "it was imported; `holdfast runs cleanup --run … --dry-run` compares it with what is running";
  if (!isSameMachine(record, host.machine))
    return "it lives on another machine, boot or in another pid namespace";
  if (record.anchor !== null && !isComparable(record.anchor, record, host.machine))
    return `it was started in another time namespace (${record.timeNamespace ?? "not recorded"}), and this kernel has no unique ids to tell its processes from others`;
  return null;
}

/**
 * The live processes of these runs. Every view of processes uses this function, so that all of them show the same.
 * `open` holds every open run: an anchor may serve several, and a process in the cgroup of one belongs to no other.
 */
export async function liveProcesses(
  host: Looker,
  records: readonly TracedRun[],
  open: readonly TracedRun[] = records,
  options: Pick<InspectOptions, "ports"> = {},
): Promise<ReadonlyMap<string, RunProcesses>> {
  const result = new Map<string, RunProcesses>();
  for (const record of records) result.set(record.runId, notLookedAt(whyNot(record, host)));
  const here = open.filter((record) => whyNot(record, host) === null);
  const wanted = here.filter(({ runId }) => result.has(runId));
  if (wanted.length === 0) return result;
  try {
    const evidence = await inspectAll(host, wanted, options);
    const cgroups = await lookAtCgroups(host, here, options);
    const marked = await markedOf(host, wanted, evidence);
    const ownerOf = new Map(
      [...cgroups].flatMap(([runId, { members }]) =>
        members.map(({ identity }) => [keyOf(identity), runId] as const),
      ),
    );
    for (const record of wanted) {
      const { runId, leaseId } = record;
      const seen = evidence.get(runId) ?? { anchor: null, root: null };
      const claims = marked.get(leaseId) ?? [];
      result.set(runId, processesOf(record, here, seen, cgroups, ownerOf, claims));
    }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    for (const { runId } of wanted) result.set(runId, notLookedAt(why));
  }
  return result;
}

/** The live processes of one run; `open`: every open run. */
export async function processesOfRun(
  host: Looker,
  record: TracedRun,
  open: readonly TracedRun[],
  options: Pick<InspectOptions, "ports"> = {},
): Promise<RunProcesses> {
  const others = open.filter(({ runId }) => runId !== record.runId);
  const found = await liveProcesses(host, [record], [record, ...others], options);
  return found.get(record.runId) ?? notLookedAt(null);
}

export function notLookedAt(unknown: string | null): RunProcesses {
  return { anchor: null, root: null, processes: [], claims: [], unknown };
}

interface Evidence {
  readonly anchor: ProcessEvidence | null;
  readonly root: ProcessEvidence | null;
}

/** One question for all. */
async function inspectAll(
  host: Looker,
  records: readonly TracedRun[],
  options: Pick<InspectOptions, "ports">,
): Promise<ReadonlyMap<string, Evidence>> {
  const asked = records.flatMap(({ anchor, root }) => [anchor, root]).filter((each) => each !== null);
  const answers = await host.inspect(asked, options);
  let at = 0;
  const next = (identity: ProcessIdentity | null): ProcessEvidence | null =>
    identity === null ? null : (answers[at++] ?? null);
  return new Map(
    records.map(({ runId, anchor, root }) => [runId, { anchor: next(anchor), root: next(root) }]),
  );
}

const NOT_ALL_NAMED = `only the first ${PROCESSES_NAMED} of its processes are named`;

interface CgroupLook {
  readonly members: LiveProcesses;
  /** Null: all of its processes are named. */
  readonly unknown: string | null;
}

async function lookAtCgroups(
  host: Looker,
  records: readonly TracedRun[],
  options: Pick<InspectOptions, "ports">,
): Promise<ReadonlyMap<string, CgroupLook>> {
  const asked = records.flatMap((record) => {
    const cgroup = cgroupOf(record);
    return cgroup === null ? [] : [{ runId: record.runId, cgroup }];
  });
  const cgroups = asked.map(({ cgroup }) => cgroup);
  const members = await host.boundaryMembers(cgroups, options);
  // Afterwards: one that was emptied meanwhile is empty.
  const states = await host.inspectBoundaries(cgroups);
  return new Map(
    asked.map(({ runId, cgroup }, at) => {
      const found = members[at] ?? [];
      const state = states[at] ?? "unknown";
      const unknown =
        state === "unknown"
          ? `its cgroup ${cgroup.path} cannot be looked at from here`
          : state === "populated" && found.length === 0
            ? `its cgroup ${cgroup.path} is not empty, but its processes cannot be named`
            : found.length >= PROCESSES_NAMED
              ? NOT_ALL_NAMED
              : null;
      return [runId, { members: found, unknown }];
    }),
  );
}

/** Marked processes by lease id. Not needed with a verified anchor, which is the parent of all orphans. */
async function markedOf(
  host: Looker,
  records: readonly TracedRun[],
  evidence: ReadonlyMap<string, Evidence>,
): Promise<ReadonlyMap<string, readonly ClaimingProcess[]>> {
  const leases = new Set(
    records
      .filter(({ runId, leaseId }) => leaseId !== "" && evidence.get(runId)?.anchor?.matches !== true)
      .map(({ leaseId }) => leaseId),
  );
  const found = new Map<string, ClaimingProcess[]>();
  if (leases.size === 0) return found;
  for (const { identity, value, command } of await host.markedProcesses())
    if (leases.has(value)) found.set(value, [...(found.get(value) ?? []), { identity, command }]);
  return found;
}

function processesOf(
  record: TracedRun,
  open: readonly TracedRun[],
  { anchor, root }: Evidence,
  cgroups: ReadonlyMap<string, CgroupLook>,
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
  // A cgroup decides before ancestry: an orphan has lost the ancestry of its run.
  const descended = membersOf(record, open, below).filter(
    ({ identity }) => (ownerOf.get(keyOf(identity)) ?? runId) === runId,
  );
  const known = new Set(descended.map(({ identity }) => keyOf(identity)));
  const inCgroup = (cgroup?.members ?? []).filter(({ identity }) => !known.has(keyOf(identity)));
  const processes = [...descended, ...inCgroup].filter(({ identity }) => !isSame(identity, record.anchor));
  for (const { identity } of processes) known.add(keyOf(identity));
  const claims = marked.filter(
    ({ identity }) =>
      !known.has(keyOf(identity)) && !ownerOf.has(keyOf(identity)) && !isSame(identity, record.anchor),
  );
  const unknown =
    hiddenText(anchor) ??
    hiddenText(root) ??
    (below.length >= PROCESSES_NAMED ? NOT_ALL_NAMED : null) ??
    // A verified anchor is an ancestor of all processes of the run.
    (anchor?.matches === true ? null : (cgroup?.unknown ?? null));
  // Without what its anchor serves for other runs.
  const own = anchor === null ? null : { ...anchor, descendants: descended };
  return { anchor: own, root, processes, claims, unknown };
}

function hiddenText(evidence: ProcessEvidence | null): string | null {
  // One that matches by its unique id is verified, hidden or not.
  if (evidence?.state !== HIDDEN || evidence.matches) return null;
  return `process ${evidence.identity.pid} lives, but cannot be looked at from here`;
}

function keyOf({ pid, startTime }: ProcessIdentity): string {
  return `${pid}:${startTime}`;
}

/** A first process among those below it. */
function asMember(root: ProcessEvidence): LiveProcesses[number] {
  const { identity, parentPid, sessionId, command, state, cpuMs = 0, rssKb = 0 } = root;
  return { identity, parentPid, sessionId, command, state, cpuMs, rssKb, ports: [] };
}
