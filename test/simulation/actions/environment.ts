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

/** A machine sleeps; to the others, and to a store with a clock of its own, time goes on. */
export function suspendMachine(context: SimulationContext): void {
  const machine = context.random.pick(context.world.machines);
  // A server's clock goes on: to whoever wakes first, a long sleep looks like an owner that is stuck.
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
