import { finalEvents, type Finale } from "./finale.js";
import { quiet } from "./let-go.js";
import { eventFacts, isOver, type LiveRun } from "./live-run.js";
import { releaseOutput } from "./release-output.js";
import { step } from "./run-state.js";

/**
 * The one way to end a run. Idempotent: the first finale wins. The terminal row and its events are one transaction,
 * repeated until it is committed; only then is `wait` answered and the run's directory given up. `end` does not wait for
 * a store that cannot be written.
 */
export function finalize(live: LiveRun, finale: Finale): void {
  if (isOver(live)) return;
  live.finalizing = true;
  live.state = step(live.state, { type: finale.type, ending: finale.ending });
  live.descendants = Math.max(live.descendants, finale.processes - 1);
  quiet(live, "the run has ended");
  const at = finale.endedAt ?? live.context.clock.wall();
  const events = finalEvents(eventFacts(live, at), finale);
  live.context.track(
    live.facts.runId,
    commit(live, live.journal.finish({ to: "exited", at, ...finale.ending }, events)),
  );
  live.concluded.resolve(live.context.clock.now());
}

async function commit(live: LiveRun, finished: ReturnType<LiveRun["journal"]["finish"]>): Promise<void> {
  try {
    const record = await finished;
    live.context.live.delete(live.facts.runId);
    live.ended.resolve(record);
    releaseOutput(live);
  } catch (error) {
    // Closed before it could be committed: the run's directory stays and tells the next supervisor.
    live.ended.reject(error);
  }
}
