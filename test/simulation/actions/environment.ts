import { defaults } from "../../../src/defaults.js";
import type { SimulationContext } from "../simulation-context.js";

const YEAR_MS = 365 * 24 * 3_600_000;

export function breakStore(context: SimulationContext): void {
  context.world.storeTrouble = context.random.pick(["refuse-writes", "refuse-all", "uncertain"] as const);
  for (const process of context.actors.alive) context.actors.markHindered(process);
  context.world.note(() => `the store is in trouble: ${context.world.storeTrouble}`);
}

export function repairStore(context: SimulationContext): void {
  context.world.storeTrouble = null;
}

export function breakProcessListing(context: SimulationContext): void {
  context.random.pick(context.world.machines).listingFails = true;
}

export function repairProcessListing(context: SimulationContext): void {
  for (const machine of context.world.machines) machine.listingFails = false;
}

/** The store is replaced by one that does not know a run. */
export function loseRunRecord(context: SimulationContext): void {
  const { database, watch } = context.world;
  const runId = context.random.maybePick([...database.records.keys()]);
  if (runId === null) return;
  context.world.note(() => `the record of ${watch.alias(runId)} is gone`);
  database.records.delete(runId);
  const truth = watch.truth(runId);
  truth.forgotten = true;
  truth.exitEvents = 0;
}

/** A machine sleeps; time passes on the others, and in a store with its own clock. */
export function suspendMachine(context: SimulationContext): void {
  const machine = context.random.pick(context.world.machines);
  // The server's clock continues: for the first machine that wakes, the other owners look stalled.
  const ms = context.random.pick([10_000, 60_000, 600_000]);
  context.world.note(() => `${machine.hostId} sleeps for ${ms} ms`);
  machine.sleepThrough(ms);
  context.world.scheduler.now += ms;
  for (const process of context.actors.alive)
    if (process.place.machine !== machine) context.actors.markHindered(process);
}

export function jumpWallClock(context: SimulationContext): void {
  const machine = context.random.pick(context.world.machines);
  machine.wallOffset += context.random.chance(0.5) ? YEAR_MS : -YEAR_MS;
  context.world.note(() => `the wall clock of ${machine.hostId} jumps`);
}

export function rebootMachine(context: SimulationContext): void {
  context.actors.reboot(context.random.pick(context.world.machines));
}

export function restartContainer(context: SimulationContext): void {
  context.actors.restartContainer(context.random.pick(context.world.places));
}

/** Time goes to the next alarm, which may ring. */
export function advanceToNextTimer(context: SimulationContext): void {
  const next = context.world.scheduler.nextAlarm();
  if (next !== null && next > 0) context.world.scheduler.now += next;
}

export function advanceBriefly(context: SimulationContext): void {
  context.world.scheduler.now += context.random.pick([10, 100, 1_000, 3_000]);
}

export async function advancePastLease(context: SimulationContext): Promise<void> {
  const ms = context.random.pick([5_000, 12_000, defaults.leaseMs + 1_000]);
  context.world.note(() => `${ms} ms pass`);
  await context.world.scheduler.pass(ms);
}

/** No process runs for a long time. */
export function advanceWithoutRunning(context: SimulationContext): void {
  const ms = context.random.pick([defaults.leaseMs + 1_000, defaults.stalledOwnerMs + 1_000, 3 * 3_600_000]);
  context.world.note(() => `no process runs for ${ms} ms`);
  for (const process of context.actors.alive) context.actors.markHindered(process);
  context.world.scheduler.now += ms;
}
