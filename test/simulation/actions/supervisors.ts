import { defaults } from "../../../src/defaults.js";
import type { SimulationContext } from "../simulation-context.js";
import { killWarmAnchor } from "./anchors.js";
import { spawnRun } from "./runs.js";
import { advanceToNextTimer, repairStore } from "./environment.js";

export function killSupervisor(context: SimulationContext): void {
  const process = context.random.maybePick(context.actors.alive);
  if (process !== null) context.actors.kill(process);
}

/** A supervisor, or the anchor, is killed at some step of a start. */
export async function interruptStart(context: SimulationContext): Promise<void> {
  const process = spawnRun(context);
  if (process === null) return;
  const { random, actors, world } = context;
  for (let left = random.below(10); left > 0; left--) if (!(await world.scheduler.deliverOne())) break;
  if (random.chance(0.7)) actors.kill(process);
  else killWarmAnchor(context);
}

export function suspendSupervisor(context: SimulationContext): void {
  const process = context.random.maybePick(context.actors.awake);
  if (process === null) return;
  context.world.note(() => `${process.name} is stopped`);
  process.held = true;
  context.actors.markHindered(process);
}

export function resumeSupervisor(context: SimulationContext): void {
  const process = context.random.maybePick(context.actors.alive.filter(({ held }) => held));
  if (process !== null) context.wake(process);
}

export function startSupervisor(context: SimulationContext): void {
  const slot = context.random.maybePick(context.actors.down);
  if (slot !== null) context.actors.boot(slot);
}

export function startSecondProcess(context: SimulationContext): void {
  const slot = context.random.maybePick(
    context.actors.slots.filter(({ process }) => process?.gone === false),
  );
  if (slot !== null) context.actors.duplicate(slot);
}

export function closeSupervisor(context: SimulationContext): void {
  const process = context.random.maybePick(context.actors.awake);
  if (process === null) return;
  process.closing = true;
  const leaveRuns = context.random.chance(0.5);
  context.world.note(() => `${process.name} closes${leaveRuns ? " and leaves its runs" : ""}`);
  void process.supervisor.close({ leaveRuns }).catch(() => undefined);
}

/** Longer than a supervisor waits for a stopped process. */
export async function suspendPastLease(context: SimulationContext): Promise<void> {
  if (context.actors.awake.length === 0 || !context.actors.alive.some(({ held }) => held)) return;
  context.world.note(() => "a stopped supervisor is outlasted");
  await context.world.scheduler.pass(defaults.leaseMs + defaults.stalledOwnerMs + 1_000);
}

/** Stops a supervisor until its run is taken over; then it continues. */
export async function suspendUntilStolen(context: SimulationContext): Promise<void> {
  const held = context.pickHeldRun(
    ({ anchor, stoppedAt }) => anchor?.executed === true && stoppedAt === null,
  );
  if (held === null || context.actors.awake.length === 1) return;
  const { process } = held;
  repairStore(context);
  context.world.note(() => `${process.name} oversleeps`);
  process.held = true;
  context.actors.markHindered(process);
  const { scheduler } = context.world;
  const stalledMs = defaults.leaseMs + defaults.stalledOwnerMs;
  if (context.random.chance(0.5)) await scheduler.pass(stalledMs + 2 * defaults.reconcileMs);
  else {
    // In the very moment in which it is being taken away.
    await scheduler.pass(stalledMs - defaults.reconcileMs);
    for (let left = context.random.between(1, 80); left > 0; left--)
      if (!(await scheduler.deliverOne())) advanceToNextTimer(context);
  }
  context.wake(process);
}

/** Ended runs are forgotten as if there were too many. */
export function applyRetention(context: SimulationContext): void {
  // A week passes before: no successor is still stopped in the middle of a start.
  if (context.actors.replaced.some(({ gone }) => !gone)) return;
  const process = context.random.maybePick(context.actors.awake);
  context.world.note(() => `${process?.name} forgets ended runs`);
  void process?.supervisor.retain({ endedKept: 0 }).catch(() => undefined);
}
