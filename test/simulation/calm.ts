import { defaults } from "../../src/defaults.js";
import { wakes } from "./acts/processes.js";
import { listingWorks } from "./acts/surroundings.js";
import type { Cast } from "./cast.js";
import { doubled, hiddenByStrangers, unsettled } from "./checks/all-settled.js";
import { readingChangesNothing } from "./checks/reading-changes-nothing.js";
import { cancelArrives, stopEmptiesTheTree, stopNeedsNoAnchor } from "./checks/stopping-works.js";
import type { Stage } from "./stage.js";

/** Above a lease, a deadline, an owner loss and the pauses between two tries, one after the other. */
const PATIENCE_MS = 150_000;
const LOOK_EVERY_MS = 6_000;
/** Above the longest pause between two tries to connect, with grace and kill. */
const STOP_MS = 16_000;
/** Above asking, SIGCONT, grace and kill, after the longest pause between two tries to connect. */
const SILENT_STOP_MS = 40_000;

/** Faults end, everybody comes back, time passes: then everything must be settled. */
export async function calm(stage: Stage): Promise<void> {
  const { world, cast } = stage;
  const { random } = world;
  world.note(() => "--- calm ---");
  listingWorks(stage);
  wakes(stage);
  for (const process of cast.alive) if (process.held) stage.wake(process);
  if (random.chance(0.8)) await stopWithoutAnchors(stage);
  for (const anchor of cast.anchors) anchor.release();
  if (world.storeTrouble !== null) await stopWithoutStore(stage);
  world.storeTrouble = null;
  comeBack(cast);
  if (random.chance(0.5)) cast.dismissStrangers();
  await settle(cast);
  if (cast.absent.length > 0 && random.chance(0.3)) await loseAbsentMachines(cast);
}

async function settle(cast: Cast): Promise<void> {
  const { scheduler, watch } = cast.world;
  for (let passed = 0, good = 0; good < 2; passed += LOOK_EVERY_MS) {
    await scheduler.pass(LOOK_EVERY_MS);
    checkStops(cast);
    const replaced = replaceClosed(cast);
    const found = unsettled(cast) ?? doubled(cast);
    good = found === null && !replaced ? good + 1 : 0;
    // A number taken by a stranger within a tick hides what became of a run, until the stranger is gone.
    if (passed > PATIENCE_MS / 2) cast.dismissStrangers();
    if (found !== null && passed > PATIENCE_MS) watch.blame(found.runId, found.what);
    watch.raise();
  }
  if (!hiddenByStrangers(cast)) watch.blame(null, await readingChangesNothing(cast));
  watch.raise();
}

/** A day without a word of a machine: its runs are given up, on record only. Then it comes back after all. */
async function loseAbsentMachines(cast: Cast): Promise<void> {
  const { world } = cast;
  const { scheduler, watch, database } = world;
  const given = [...database.records.values()].filter(
    ({ hostId, state }) => state !== "exited" && cast.absent.some((machine) => machine.hostId === hostId),
  );
  for (const { runId } of given) watch.truth(runId).givenUp = true;
  // Long enough for its leases to expire, and for somebody to notice.
  await scheduler.pass(defaults.leaseMs + 2 * defaults.reconcileMs);
  world.note(() => "a day passes");
  for (const process of cast.alive) cast.hinder(process);
  scheduler.now += defaults.hostLostMs;
  await scheduler.pass(2 * defaults.reconcileMs);
  for (const { runId } of given)
    if (database.getRun(runId)?.state !== "exited")
      watch.blame(runId, "nothing was heard of its machine for a day, and it is still open");
  watch.raise();
  for (const seat of cast.down) cast.boot(seat);
  await settle(cast);
}

/** Anchors stay stopped: what was asked to stop ends without them. Nobody may be killed for silence alone. */
async function stopWithoutAnchors(stage: Stage): Promise<void> {
  const { cast, world } = stage;
  const silent = cast.anchors.filter((anchor) => anchor.held);
  if (silent.length === 0) return;
  world.storeTrouble = null;
  const unending = silent.filter((anchor) => !anchor.mayEnd());
  world.note(() => `${silent.length} anchors stay stopped`);
  for (const { runId } of silent) if (world.random.chance(0.7)) cancelHeld(stage, runId);
  await world.scheduler.pass(SILENT_STOP_MS);
  for (const each of stage.asked)
    world.watch.blame(each.runId, stopNeedsNoAnchor(each, world.watch.truth(each.runId)));
  for (const anchor of unending)
    // Neither its own end nor a stop: it was killed for its silence.
    if (anchor.gone && anchor.directory.exit === null && anchor.directory.firstStop === null)
      world.watch.blame(anchor.runId, "its anchor was killed although no end of it was due");
  world.watch.raise();
}

function cancelHeld({ cast, asked }: Stage, runId: string): void {
  const process = cast.awake.find(({ supervisor }) => supervisor.run(runId) !== null);
  if (process === undefined) return;
  asked.push({ process, runId });
  void process.supervisor
    .run(runId)
    ?.cancel({ actor: "test" })
    .catch(() => undefined);
}

async function stopWithoutStore({ cast, asked }: Stage): Promise<void> {
  const { scheduler, watch } = cast.world;
  await scheduler.pass(STOP_MS);
  checkStops(cast);
  for (const each of asked) watch.blame(each.runId, cancelArrives(each, watch.truth(each.runId)));
  watch.raise();
}

function checkStops(cast: Cast): void {
  const { watch } = cast.world;
  for (const anchor of cast.anchors)
    watch.blame(anchor.runId, stopEmptiesTheTree(anchor, watch.truth(anchor.runId)));
}

/** Who closes now leaves a place empty that was not. */
function replaceClosed(cast: Cast): boolean {
  const left = cast.seats.filter(({ process, place, instanceId }) => {
    const former = cast.former.filter((each) => each.instanceId === instanceId);
    const closed = [process, ...former].some((each) => each?.gone === true && each.closing);
    return closed && !cast.alive.some((each) => each.place === place);
  });
  for (const seat of left) cast.boot(seat);
  return left.length > 0;
}

/** Sometimes one stays away for good: then the others must see to its runs. One per container is always there. */
function comeBack(cast: Cast): void {
  const { random, places, variant } = cast.world;
  for (const place of places) {
    if (place.machine !== places[0]?.machine && random.chance(0.3)) {
      for (const process of cast.alive)
        if (process.place === place) {
          process.closing = false;
          process.end();
        }
      continue;
    }
    const down = cast.down.filter((seat) => seat.place === place);
    const all = down.length === variant.supervisors;
    const returning =
      variant.containers === 1 ? down.filter((_, at) => (all && at === 0) || random.chance(0.6)) : down;
    for (const seat of returning) cast.boot(seat);
  }
}
