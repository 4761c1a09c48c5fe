import { runEventBase, type LiveRun } from "./run/live-run.js";
import { step } from "./run/state.js";

/** The command has been exec'd, so long ago: the deadlines run from there. */
export function markStarted(live: LiveRun, elapsedMs = 0): void {
  live.state = step(live.state, { type: "started" });
  recordStart(live, live.context.clock.wall() - elapsedMs);
  // On the anchor's monotonic clock: the wall's may have been set since.
  live.deadlines.arm(elapsedMs);
  live.started.resolve();
}

/** Once per run; a run taken up again has been noted before, or is dated by its record. */
export function recordStart(live: LiveRun, ifUnknown: number): void {
  // The clock may have been set back since it was asked for.
  const at = Math.max(live.startedAt?.at ?? ifUnknown, live.writeQueue.record.createdAt);
  if (live.startedAt?.recorded === true) return;
  live.startedAt = { at, recorded: true };
  const tier = live.tier ?? "";
  live.writeQueue.enqueue({ to: "running", at }, [
    { ...runEventBase(live, at), type: "spawn", data: { tier, command: live.facts.command } },
  ]);
}
