import { type LiveRun, runEventBase } from "./live-run.js";
import { step } from "./state-machine.js";

/** The command was executed `elapsedMs` ago: the deadlines count from there. */
export function markStarted(live: LiveRun, elapsedMs = 0): void {
  live.state = step(live.state, { type: "started" });
  recordStart(live, live.context.clock.wall() - elapsedMs);
  // `elapsedMs` is of the anchor's monotonic clock: the wall clock may have been set since.
  live.deadlines.arm(elapsedMs);
  live.started.resolve();
}

/** Records the start once per run. `ifUnknown`: the start time if none is recorded. */
export function recordStart(live: LiveRun, ifUnknown: number): void {
  // The wall clock may have been set back since the record was created.
  const at = Math.max(live.startedAt?.at ?? ifUnknown, live.writeQueue.record.createdAt);
  if (live.startedAt?.recorded === true) return;
  live.startedAt = { at, recorded: true };
  const tier = live.tier ?? "";
  live.writeQueue.enqueue({ to: "running", at }, [
    { ...runEventBase(live, at), type: "spawn", data: { tier, command: live.facts.command } },
  ]);
}
