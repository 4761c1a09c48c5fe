import { defaults } from "../../../src/defaults.js";
import type { SimulationContext } from "../simulation-context.js";

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

/** Nobody gets to do anything for a long time. */
export function advanceWithoutRunning(context: SimulationContext): void {
  const ms = context.random.pick([defaults.leaseMs + 1_000, defaults.stalledOwnerMs + 1_000, 3 * 3_600_000]);
  context.world.note(() => `nobody gets to do anything for ${ms} ms`);
  for (const process of context.actors.alive) context.actors.markHindered(process);
  context.world.scheduler.now += ms;
}
