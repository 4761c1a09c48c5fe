import { eventFacts, type LiveRun } from "./live-run.js";
import { step } from "./run-state.js";

/** The command has been exec'd: the deadlines run from here. */
export function noteStarted(live: LiveRun): void {
  live.state = step(live.state, { type: "started" });
  const at = recordStart(live);
  live.deadlines.arm(live.context.clock.wall() - at);
  live.started.resolve();
}

/** Once per run; a run taken up again has been noted before, or is dated by its record. */
export function recordStart(live: LiveRun, ifUnknown = live.context.clock.wall()): number {
  const at = live.startedAt?.at ?? ifUnknown;
  if (live.startedAt?.noted === true) return at;
  live.startedAt = { at, noted: true };
  const tier = live.tier ?? "";
  live.journal.note({ to: "running", at }, [
    { ...eventFacts(live, at), type: "spawn", data: { tier, command: live.facts.command } },
  ]);
  return at;
}
