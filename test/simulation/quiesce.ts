import { defaults } from "../../src/defaults.js";
import { repairProcessListing } from "./actions/environment.js";
import { makeKillable } from "./actions/processes.js";
import type { Actors } from "./actors.js";
import {
  cancelReachesAnchor,
  findDoubledInstance,
  findUnsettledRun,
  hiddenByStrangers,
  readingChangesNothing,
  stopEmptiesTheTree,
  stopNeedsNoAnchor,
} from "./quiescence-checks.js";
import type { SimulationContext } from "./simulation-context.js";

/** Above a lease, a deadline, an owner loss and the pauses between two tries, one after the other. */
const SETTLE_TIMEOUT_MS = 150_000;
const POLL_MS = 6_000;
/** Above the longest pause between two tries to connect, with grace and kill. */
const STOP_MS = 16_000;
/** Above asking, SIGCONT, grace and kill, after the longest pause between two tries to connect. */
const SILENT_STOP_MS = 40_000;

/** Ends all faults, restarts all supervisors and lets time pass: then every run must be settled. */
export async function quiesce(context: SimulationContext): Promise<void> {
  const { world, actors } = context;
  const { random } = world;
  world.note(() => "--- calm ---");
  repairProcessListing(context);
  makeKillable(context);
  for (const process of actors.alive) if (process.held) context.wake(process);
  if (random.chance(0.8)) await stopWithoutAnchors(context);
  for (const anchor of [...actors.anchors, ...actors.warmAnchors]) anchor.release();
  if (world.storeTrouble !== null) await stopWithoutStore(context);
  world.storeTrouble = null;
  restartSupervisors(actors);
  if (random.chance(0.5)) actors.endUnrelated();
  await waitUntilSettled(actors);
  if (actors.emptyMachines.length > 0 && random.chance(0.3)) await loseAbsentMachines(actors);
}

async function waitUntilSettled(actors: Actors): Promise<void> {
  const { scheduler, watch } = actors.world;
  for (let passed = 0, good = 0; good < 2; passed += POLL_MS) {
    await scheduler.pass(POLL_MS);
    checkStops(actors);
    const replaced = restartClosed(actors);
    const found = findUnsettledRun(actors) ?? findDoubledInstance(actors);
    good = found === null && !replaced ? good + 1 : 0;
    // A pid that a bystander reused within a tick hides the end of a run until the bystander is gone.
    if (passed > SETTLE_TIMEOUT_MS / 2) actors.endUnrelated();
    if (found !== null && passed > SETTLE_TIMEOUT_MS) watch.blame(found.runId, found.what);
    watch.raise();
  }
  if (!hiddenByStrangers(actors)) watch.blame(null, await readingChangesNothing(actors));
  watch.raise();
}

/** A day without a word of a machine: its runs are given up, on record only. Then it comes back after all. */
async function loseAbsentMachines(actors: Actors): Promise<void> {
  const { world } = actors;
  const { scheduler, watch, database } = world;
  const given = [...database.records.values()].filter(
    ({ hostId, state }) =>
      state !== "exited" && actors.emptyMachines.some((machine) => machine.hostId === hostId),
  );
  for (const { runId } of given) watch.truth(runId).givenUp = true;
  // Long enough for its leases to expire and to be noticed.
  await scheduler.pass(defaults.leaseMs + 2 * defaults.reconcileMs);
  world.note(() => "a day passes");
  for (const process of actors.alive) actors.markHindered(process);
  scheduler.now += defaults.hostLostMs;
  await scheduler.pass(2 * defaults.reconcileMs);
  for (const { runId } of given)
    if (database.getRun(runId)?.state !== "exited")
      watch.blame(runId, "nothing was heard of its machine for a day, and it is still open");
  watch.raise();
  for (const slot of actors.down) actors.boot(slot);
  await waitUntilSettled(actors);
}

/** Anchors stay stopped: a run with a requested stop ends without them. Silence alone kills no process. */
async function stopWithoutAnchors(context: SimulationContext): Promise<void> {
  const { actors, world } = context;
  const silent = actors.anchors.filter((anchor) => anchor.held);
  if (silent.length === 0) return;
  world.storeTrouble = null;
  // A warm anchor ends with its owner.
  const unending = silent.filter((anchor) => !anchor.warm && !anchor.mayEnd());
  world.note(() => `${silent.length} anchors stay stopped`);
  for (const { runId } of silent) if (world.random.chance(0.7)) cancelHeldRun(context, runId);
  await world.scheduler.pass(SILENT_STOP_MS);
  for (const each of context.cancelRequests)
    world.watch.blame(each.runId, stopNeedsNoAnchor(each, world.watch.truth(each.runId)));
  for (const anchor of unending)
    // Neither its own end nor a stop: it was killed for its silence.
    if (anchor.gone && anchor.directory.exit === null && anchor.directory.firstStop === null)
      world.watch.blame(anchor.runId, "its anchor was killed although no end of it was due");
  world.watch.raise();
}

function cancelHeldRun(context: SimulationContext, runId: string): void {
  const { actors, cancelRequests: asked } = context;
  const process = actors.awake.find(({ supervisor }) => supervisor.run(runId) !== null);
  if (process === undefined) return;
  asked.push(context.heldRun(process, runId));
  void process.supervisor
    .run(runId)
    ?.cancel({ actor: "test" })
    .catch(() => undefined);
}

async function stopWithoutStore({ actors, cancelRequests: asked }: SimulationContext): Promise<void> {
  const { scheduler, watch } = actors.world;
  await scheduler.pass(STOP_MS);
  checkStops(actors);
  for (const each of asked) watch.blame(each.runId, cancelReachesAnchor(each, watch.truth(each.runId)));
  watch.raise();
}

function checkStops(actors: Actors): void {
  const { watch } = actors.world;
  for (const anchor of actors.anchors)
    watch.blame(anchor.runId, stopEmptiesTheTree(anchor, watch.truth(anchor.runId)));
}

/** A supervisor that closes now leaves its machine empty. */
function restartClosed(actors: Actors): boolean {
  const left = actors.slots.filter(({ process, place, instanceId }) => {
    const former = actors.replaced.filter((each) => each.instanceId === instanceId);
    const closed = [process, ...former].some((each) => each?.gone === true && each.closing);
    return closed && !actors.alive.some((each) => each.place === place);
  });
  for (const slot of left) actors.boot(slot);
  return left.length > 0;
}

/** Sometimes one stays away for good: then the others must see to its runs. One per container is always there. */
function restartSupervisors(actors: Actors): void {
  const { random, places, variant } = actors.world;
  for (const place of places) {
    if (place.machine !== places[0]?.machine && random.chance(0.3)) {
      for (const process of actors.alive)
        if (process.place === place) {
          process.closing = false;
          process.end();
        }
      continue;
    }
    const down = actors.down.filter((slot) => slot.place === place);
    const all = down.length === variant.supervisors;
    const returning =
      variant.containers === 1 ? down.filter((_, at) => (all && at === 0) || random.chance(0.6)) : down;
    for (const slot of returning) actors.boot(slot);
  }
}
