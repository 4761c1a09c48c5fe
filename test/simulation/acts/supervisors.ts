import { defaults } from "../../../src/defaults.js";
import type { Stage } from "../stage.js";
import { storeWell } from "./surroundings.js";
import { tick } from "./time.js";

export function kill(stage: Stage): void {
  const process = stage.random.maybePick(stage.cast.alive);
  if (process !== null) stage.cast.kill(process);
}

export function stop(stage: Stage): void {
  const process = stage.random.maybePick(stage.cast.awake);
  if (process === null) return;
  stage.world.note(() => `${process.name} is stopped`);
  process.held = true;
  stage.cast.hinder(process);
}

export function resume(stage: Stage): void {
  const process = stage.random.maybePick(stage.cast.alive.filter(({ held }) => held));
  if (process !== null) stage.wake(process);
}

export function boot(stage: Stage): void {
  const seat = stage.random.maybePick(stage.cast.down);
  if (seat !== null) stage.cast.boot(seat);
}

export function duplicate(stage: Stage): void {
  const seat = stage.random.maybePick(stage.cast.seats.filter(({ process }) => process?.gone === false));
  if (seat !== null) stage.cast.duplicate(seat);
}

export function close(stage: Stage): void {
  const process = stage.random.maybePick(stage.cast.awake);
  if (process === null) return;
  process.closing = true;
  const leaveRuns = stage.random.chance(0.5);
  stage.world.note(() => `${process.name} closes${leaveRuns ? " and leaves its runs" : ""}`);
  void process.supervisor.close({ leaveRuns }).catch(() => undefined);
}

/** Longer than anybody waits for somebody who is stopped. */
export async function outlast(stage: Stage): Promise<void> {
  if (stage.cast.awake.length === 0 || !stage.cast.alive.some(({ held }) => held)) return;
  stage.world.note(() => "a stopped supervisor is outlasted");
  await stage.world.scheduler.pass(defaults.leaseMs + defaults.stalledOwnerMs + 1_000);
}

/** Stopped with a run in its hands, for so long that it is taken away; then it goes on where it was. */
export async function oversleep(stage: Stage): Promise<void> {
  const held = stage.held(({ anchor, stoppedAt }) => anchor?.executed === true && stoppedAt === null);
  if (held === null || stage.cast.awake.length === 1) return;
  const { process } = held;
  storeWell(stage);
  stage.world.note(() => `${process.name} oversleeps`);
  process.held = true;
  stage.cast.hinder(process);
  const { scheduler } = stage.world;
  const stalledMs = defaults.leaseMs + defaults.stalledOwnerMs;
  if (stage.random.chance(0.5)) await scheduler.pass(stalledMs + 2 * defaults.reconcileMs);
  else {
    // In the very moment in which it is being taken away.
    await scheduler.pass(stalledMs - defaults.reconcileMs);
    for (let left = stage.random.between(1, 80); left > 0; left--)
      if (!(await scheduler.deliverOne())) tick(stage);
  }
  stage.wake(process);
}

/** Ended runs are forgotten as if there were too many. */
export function retain(stage: Stage): void {
  // A week passes before that: nobody who was started in another's place is still stopped in the middle of a start.
  if (stage.cast.former.some(({ gone }) => !gone)) return;
  const process = stage.random.maybePick(stage.cast.awake);
  stage.world.note(() => `${process?.name} forgets ended runs`);
  void process?.supervisor.retain({ endedKept: 0 }).catch(() => undefined);
}
