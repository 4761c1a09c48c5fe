import type { Stage } from "../stage.js";

const YEAR_MS = 365 * 24 * 3_600_000;

export function storeTrouble(stage: Stage): void {
  stage.world.storeTrouble = stage.random.pick(["refuse-writes", "refuse-all", "uncertain"] as const);
  for (const process of stage.cast.alive) stage.cast.hinder(process);
  stage.world.note(() => `the store is in trouble: ${stage.world.storeTrouble}`);
}

export function storeWell(stage: Stage): void {
  stage.world.storeTrouble = null;
}

export function listingFails(stage: Stage): void {
  stage.random.pick(stage.world.machines).listingFails = true;
}

export function listingWorks(stage: Stage): void {
  for (const machine of stage.world.machines) machine.listingFails = false;
}

/** The store is replaced by one that does not know a run. */
export function forget(stage: Stage): void {
  const { database, watch } = stage.world;
  const runId = stage.random.maybePick([...database.records.keys()]);
  if (runId === null) return;
  stage.world.note(() => `the record of ${watch.alias(runId)} is gone`);
  database.records.delete(runId);
  const truth = watch.truth(runId);
  truth.forgotten = true;
  truth.exitEvents = 0;
}

/** A machine sleeps; to the others, and to a store with a clock of its own, time goes on. */
export function suspend(stage: Stage): void {
  const machine = stage.random.pick(stage.world.machines);
  // A server's clock goes on: to whoever wakes first, a long sleep looks like an owner that is stuck.
  const ms = stage.random.pick([10_000, 60_000, 600_000]);
  stage.world.note(() => `${machine.hostId} sleeps for ${ms} ms`);
  machine.sleepThrough(ms);
  stage.world.scheduler.now += ms;
  for (const process of stage.cast.alive) if (process.place.machine !== machine) stage.cast.hinder(process);
}

export function wallJumps(stage: Stage): void {
  const machine = stage.random.pick(stage.world.machines);
  machine.wallOffset += stage.random.chance(0.5) ? YEAR_MS : -YEAR_MS;
  stage.world.note(() => `the wall clock of ${machine.hostId} jumps`);
}

export function reboot(stage: Stage): void {
  stage.cast.reboot(stage.random.pick(stage.world.machines));
}

export function renewContainer(stage: Stage): void {
  stage.cast.renew(stage.random.pick(stage.world.places));
}
