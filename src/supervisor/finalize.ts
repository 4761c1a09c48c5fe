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
  const at = endedAt(live, finale);
  const last = finale.lastOutputAt ?? live.activity.lastAt;
  const events = finalEvents(eventFacts(live, at), finale);
  live.context.track(
    live.facts.runId,
    commit(
      live,
      live.journal.finish(
        {
          to: "exited",
          at,
          ...(last === null ? {} : { lastOutputAt: within(last, startedAt(live), at) }),
          ...finale.ending,
        },
        events,
      ),
    ),
  );
  live.concluded.resolve(live.context.clock.now());
}

/**
 * The anchor's wall clock at the end, as the start is this supervisor's at GO. When that is before the start, the clock
 * was set back meanwhile: then the end is as long after the start as the run took on the monotonic clock.
 */
function endedAt(live: LiveRun, { endedAt: told, durationMs = 0 }: Finale): number {
  const at = told ?? live.context.clock.wall();
  const start = startedAt(live);
  return at < start ? start + durationMs : at;
}

/** Of a command that was never executed: when it was asked for. */
function startedAt({ journal }: LiveRun): number {
  return journal.record.startedAt ?? journal.record.createdAt;
}

function within(at: number, from: number, to: number): number {
  return Math.max(from, Math.min(at, to));
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
