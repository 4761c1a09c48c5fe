import type { RunRecord } from "../../src/model/run.js";
import type { Actors } from "./actors.js";
import type { SimulatedAnchor } from "./parts/anchor.js";
import type { RunTruth } from "./run-truth.js";
import type { HeldRun } from "./simulation-context.js";
import type { SimulatedWorld } from "./world.js";

/** The promises that do not hold after a while without faults. */
export function findUnsettledRun(actors: Actors): { readonly runId: string; readonly what: string } | null {
  const { database, watch } = actors.world;
  for (const record of database.records.values()) {
    const { runId } = record;
    const what = whyStuck(actors, record, watch.truth(runId));
    if (what !== null) return { runId, what };
  }
  for (const anchor of actors.warmAnchors)
    if (anchor.owner === null || anchor.owner.by.gone)
      return {
        runId: anchor.runId,
        what: "its anchor has no run, and lives although its supervisor is gone",
      };
  for (const { place } of actors.alive)
    for (const { warm } of actors.world.directoryOf(place.machine).instances.values())
      for (const { runId, anchor } of warm.values()) {
        // The directory of an open record is evidence, and stays.
        const isOpen = (database.getRun(runId)?.state ?? "exited") !== "exited";
        if (anchor?.gone === true && !isOpen)
          return { runId, what: "its anchor never had a run, and left a directory" };
      }
  for (const anchor of actors.anchors) {
    const record = database.getRun(anchor.runId);
    const unattended = actors.emptyMachines.includes(anchor.place.machine);
    if (!unattended && (record === null || record.state === "exited"))
      return { runId: anchor.runId, what: "its anchor lives although its record has ended" };
  }
  return null;
}

/** One of two processes of an instance is left. */
export function findDoubledInstance({
  alive,
}: Actors): { readonly runId: null; readonly what: string } | null {
  const twice = alive.find((one) =>
    alive.some((other) => other !== one && other.instanceId === one.instanceId),
  );
  return twice === undefined
    ? null
    : { runId: null, what: `several processes of one instance live: ${twice.name} and another` };
}

/** Every inspection of such a run may report something else. */
export function hiddenByStrangers({ world: { database, watch } }: Actors): boolean {
  return [...database.records.values()].some((record) => looksAlive(record, watch.truth(record.runId)));
}

function whyStuck(actors: Actors, record: RunRecord, truth: RunTruth): string | null {
  const { anchor } = truth;
  if (record.state === "exited") return whyWrongEnd(actors, record, truth);
  const host = actors.world.machines.find(({ hostId }) => hostId === record.hostId);
  // Nothing may be concluded elsewhere about a machine without a supervisor.
  if (host === undefined || !actors.alive.some(({ place }) => place.machine === host)) return null;
  if (looksAlive(record, truth)) return null;
  if (anchor === null || anchor.gone) return `it is ${record.state}, and its anchor is gone`;
  const owner = actors.alive.find(({ instanceId }) => instanceId === record.ownerInstanceId);
  if (owner === undefined) return `it is ${record.state}, and its owner ${record.ownerInstanceId} is gone`;
  if (owner.supervisor.run(record.runId) === null) return `its owner ${owner.name} does not hold it`;
  const other = actors.alive.find((each) => each !== owner && each.supervisor.run(record.runId) !== null);
  if (other !== undefined) return `${other.name} holds it as well as its owner ${owner.name}`;
  if (anchor.owner?.by !== owner) return `its owner ${owner.name} is not connected to its anchor`;
  if (
    record.policy.onOrphan === "terminate" &&
    record.originInstanceId !== record.ownerInstanceId &&
    anchor.firstStop === null
  )
    return "it was not to outlive its owner, and goes on under another";
  if (anchor.leaderDone || anchor.firstStop !== null)
    return "it was stopped or has ended, and is still there";
  if (!anchor.executed) return "it was never executed, and is still there";
  const due = anchor.deadline();
  const late = due === null ? 0 : anchor.place.machine.monotonic - due;
  const { backstopMs, graceMs } = anchor.spec.policy;
  if (late > backstopMs + graceMs) return `its deadline passed ${late} ms ago`;
  return null;
}

/** Another process has the anchor's pid and start time, and there is no unique id: nothing is concluded. */
function looksAlive({ state, anchor: recorded }: RunRecord, { anchor }: RunTruth): boolean {
  if (
    state === "exited" ||
    recorded === null ||
    recorded.uniqueId !== null ||
    anchor === null ||
    !anchor.gone
  )
    return false;
  return anchor.place.processes.get(recorded.pid)?.identity.startTime === recorded.startTime;
}

function whyWrongEnd(actors: Actors, record: RunRecord, truth: RunTruth): string | null {
  const holder = actors.alive.find(({ supervisor }) => supervisor.run(record.runId) !== null);
  if (holder !== undefined) return `${holder.name} still holds it, and it has ended`;
  // With two processes of one instance, the other one may discard the directory before it can see the record (seed 830).
  const isDoubled = actors.replaced.some(({ instanceId }) => instanceId === record.originInstanceId);
  // A bystander with the anchor's pid and start time hides that the anchor is gone (seed 1011840).
  const isMistakable = truth.anchor?.place.machine.hasUniqueIds === false && truth.anchor.cgroup === null;
  const excused = truth.forgotten || truth.restarted || truth.givenUp || isDoubled || isMistakable;
  if (truth.anchor?.warm === true && !truth.anchor.leftNothing && !excused && record.exit?.reason === "lost")
    return "it ended as lost, and its command was not executed";
  const left = truth.processes();
  const inCgroup = left.filter(({ cgroup }) => cgroup?.exists === true);
  if (inCgroup.length > 0 && !actors.emptyMachines.some((machine) => machine.hostId === record.hostId))
    return `${inCgroup.length} of its processes live in its cgroup, and it has ended`;
  if (record.emptiness === "proven") {
    return left.length > 0 ? `${left.length} of its processes live, after an end that was proven` : null;
  }
  // A launcher writes no report while it cannot kill a process.
  const stuckSomewhere = [...actors.world.watch.runs.values()].some(({ wasStuck }) => wasStuck);
  return isUnprovenJustified(truth, stuckSomewhere) ? null : "its end is unproven without need";
}

/**
 * `unproven` is correct only if the anchor was killed and there is neither a report nor a cgroup, or if a warm anchor
 * without a cgroup ended before START reached it: it leaves nothing that shows that the command never ran. There is no
 * report, for example, if a supervisor ends a run without its anchor and is killed before it writes one (seed 1002776).
 */
function isUnprovenJustified(truth: RunTruth, stuckSomewhere: boolean): boolean {
  const { anchorKilled, endedUnswept, restarted, givenUp, forgotten, anchor } = truth;
  return (
    restarted ||
    givenUp ||
    forgotten ||
    (anchor?.warm === true && anchor.cgroup === null) ||
    (anchorKilled && (stuckSomewhere || (endedUnswept && anchor?.cgroup === null)))
  );
}

/** Invariant 6: looking, and reconciling a second time, change neither a row nor an event. */
export async function readingChangesNothing(actors: Actors): Promise<string | null> {
  // A lease may have expired just now: the first pass reports that.
  await readEverything(actors);
  const before = snapshot(actors.world);
  await readEverything(actors);
  return snapshot(actors.world) === before ? null : "looking again changed the store";
}

async function readEverything({ awake, world }: Actors): Promise<void> {
  for (const { supervisor } of awake) {
    void supervisor.listRuns().catch(() => undefined);
    void supervisor.listEvents({}).catch(() => undefined);
    void supervisor.getRun("no such run").catch(() => undefined);
    void supervisor.reconcile().catch(() => undefined);
  }
  await world.scheduler.deliverAll();
}

/** A renewed lease is no change. */
function snapshot({ database }: SimulatedWorld): string {
  const rows = [...database.records.values()].map((record) => ({ ...record, leaseExpiresAt: 0 }));
  return JSON.stringify([rows, database.events.length]);
}

/** Time of KILL and its repetition after the grace period. */
const KILL_MS = 2_500;

/** Invariant 7: a stop that reached its anchor empties the tree within grace and kill time, whatever the store does. */
export function stopEmptiesTheTree(anchor: SimulatedAnchor, truth: RunTruth): string | null {
  if (truth.stoppedAt === null || anchor.gone || anchor.held) return null;
  const since = anchor.place.machine.monotonic - truth.stoppedAt;
  const left = anchor.members().filter(({ stuck }) => !stuck);
  if (left.length === 0 || since <= anchor.spec.policy.graceMs + KILL_MS) return null;
  return `${left.length} of its processes live ${since} ms after it was stopped`;
}

/** Invariant 7: a cancel ends the tree although its anchor is stopped. */
export function stopNeedsNoAnchor(
  { process, runId, isOwned }: HeldRun,
  { anchor, forgotten, wasStuck }: RunTruth,
): string | null {
  // The next process that owns the run has no request (seed 7010041).
  if (!isOwned || forgotten || wasStuck || process.gone || process.held || anchor === null || !anchor.held)
    return null;
  if (process.supervisor.run(runId) === null) return null;
  const left = anchor.members();
  return left.length === 0
    ? null
    : `it was cancelled, and ${left.length} of its processes live below a stopped anchor`;
}

/** Invariant 7: a cancel reaches the anchor although the store refuses everything. */
export function cancelReachesAnchor(
  { process, runId }: HeldRun,
  { anchor, stoppedAt, forgotten }: RunTruth,
): string | null {
  // The supervisor detached when the record was gone, and found the run again under another owner.
  if (forgotten) return null;
  if (process.gone || anchor === null || anchor.gone || anchor.leaderDone || stoppedAt !== null) return null;
  // Detached: another supervisor owns it, or ended its record. This one no longer stops it.
  if (process.supervisor.run(runId) === null) return null;
  return `${process.name} has a request to cancel it, and its anchor has not received it`;
}
