import { defaults } from "../../../src/defaults.js";
import type { Stage } from "../stage.js";

/** Time goes to the next alarm, which may ring. */
export function tick(stage: Stage): void {
  const next = stage.world.scheduler.nextAlarm();
  if (next !== null && next > 0) stage.world.scheduler.now += next;
}

export function moment(stage: Stage): void {
  stage.world.scheduler.now += stage.random.pick([10, 100, 1_000, 3_000]);
}

export async function lease(stage: Stage): Promise<void> {
  const ms = stage.random.pick([5_000, 12_000, defaults.leaseMs + 1_000]);
  stage.world.note(() => `${ms} ms pass`);
  await stage.world.scheduler.pass(ms);
}

/** Nobody gets to do anything for a long time. */
export function starve(stage: Stage): void {
  const ms = stage.random.pick([defaults.leaseMs + 1_000, defaults.stalledOwnerMs + 1_000, 3 * 3_600_000]);
  stage.world.note(() => `nobody gets to do anything for ${ms} ms`);
  for (const process of stage.cast.alive) stage.cast.hinder(process);
  stage.world.scheduler.now += ms;
}
