import type { ReapRequest, ReapResult } from "../../../src/anchor/host-interface.js";
import type { Actor } from "../scheduler.js";
import type { SimulatedWorld } from "../world.js";
import {
  endProcess,
  findAnchor,
  matchesIdentity,
  sendSignal,
  type SimulatedCgroup,
  type SimulatedPidNamespace,
  type SimulatedProcess,
} from "./machine.js";

const KILL_ROUNDS = 3;

const NOTHING_REAPED = {
  verified: false,
  why: "no match",
  killed: 0,
  killMode: "none",
  residue: [],
  survivors: [],
} as const;

/** `anchor reap`: a process that outlives the supervisor that started it. */
export function reap(
  world: SimulatedWorld,
  place: SimulatedPidNamespace,
  runId: string | null,
  request: ReapRequest,
  done: (result: ReapResult) => void,
): void {
  const actor: Actor = place.machine;
  const boot = place.machine.bootId;
  const cgroup = findCgroup(place, request);
  const root = verified(world, place, request, cgroup);
  const anchor = request.anchor ? findAnchor(place, request.anchor, world.flaws.anchorByProgram) : null;
  if (world.flaws.reapSparesSilent === true && request.anchor !== undefined)
    return done({ ...NOTHING_REAPED, emptiness: "unproven" });
  if (anchor !== null) world.watch.signalledAnchor("reap", request.anchor?.runId ?? "", anchor);
  if (root === null && cgroup === null && anchor === null) {
    const emptiness = world.flaws.reapHopes === true ? "proven" : "unproven";
    return done({ ...NOTHING_REAPED, emptiness });
  }
  const by = { who: "reap", runId, place } as const;
  const known = new Set<SimulatedProcess>(root === null ? [] : [root]);
  // With handles, a found process stays the same one.
  const collect = (): SimulatedProcess[] => {
    if (anchor?.alive === true) for (const each of place.descendantsOf(anchor)) known.add(each);
    for (const each of [...known])
      if (each.alive) for (const child of place.descendantsOf(each)) known.add(child);
    if (cgroup?.exists === true) for (const each of place.membersOf(cgroup)) known.add(each);
    return [...known].filter(({ alive }) => alive);
  };
  const finish = (): void => {
    const left = collect();
    // All processes are below a live subreaper or in the cgroup.
    const all = anchor?.alive === true || cgroup !== null;
    const proven = all && left.length === 0 && (cgroup === null || place.membersOf(cgroup).length === 0);
    if (proven && cgroup !== null) place.machine.removeCgroup(cgroup);
    if (proven && anchor !== null) {
      world.watch.truth(request.anchor?.runId ?? "").anchorKilled = true;
      endProcess(world, anchor, 9);
    }
    done({
      verified: true,
      why: "",
      killed: known.size - left.length,
      killMode: cgroup === null ? "pid" : "cgroup",
      residue: [...known]
        .filter((each) => each !== root)
        .map(({ identity: { pid, startTime }, what }) => ({
          pid,
          startTime,
          kind: "background",
          command: what,
        })),
      survivors: left.map(({ identity: { pid, startTime }, what }) => {
        return { pid, startTime, kind: "unkillable", command: what };
      }),
      emptiness: proven || world.flaws.reapHopes === true ? "proven" : "unproven",
      anchor: anchor === null ? null : proven ? "killed" : "kept",
    });
  };
  const kill = (round: number): void => {
    if (place.machine.bootId !== boot) return;
    for (const each of collect()) sendSignal(world, by, each, "KILL");
    if (collect().length === 0 || round === KILL_ROUNDS) finish();
    else world.scheduler.after(actor, 100, () => kill(round + 1));
  };
  for (const each of collect()) if (request.graceMs > 0) sendSignal(world, by, each, "TERM");
  world.scheduler.after(actor, request.graceMs, () => kill(1));
}

function findCgroup(place: SimulatedPidNamespace, { cgroup }: ReapRequest): SimulatedCgroup | null {
  if (cgroup === null) return null;
  return (
    place.machine.cgroups.find(({ path, inode }) => path === cgroup.path && inode === cgroup.inode) ?? null
  );
}

/** A start time collides within a tick: without a unique id, the cgroup or the marker must match too. */
function verified(
  world: SimulatedWorld,
  place: SimulatedPidNamespace,
  { root, leaseId }: ReapRequest,
  cgroup: SimulatedCgroup | null,
): SimulatedProcess | null {
  if (root === null) return null;
  const found = place.processes.get(root.pid);
  if (found === undefined) return null;
  if (world.flaws.reapByNumber === true) return found;
  if (!matchesIdentity(found, root)) return null;
  const unique = root.uniqueId !== null && found.identity.uniqueId === root.uniqueId;
  const inside = cgroup !== null && found.cgroup === cgroup;
  const marked = leaseId !== null && found.leaseId === leaseId;
  return unique || inside || marked ? found : null;
}
