import { terminalEvents, type TerminalRecord } from "./terminal-record.js";
import { stopWatchers } from "../run/lifecycle.js";
import { runEventBase, isInactive, type LiveRun } from "../run/live-run.js";
import { discardUnusedOutput } from "../release-output.js";
import { step } from "../run/state.js";

/**
 * The one way to end a run. Idempotent: the first finale wins. The terminal row and its events are one transaction,
 * repeated until it is committed; only then is `wait` answered and the run's directory given up. `end` does not wait for
 * a store that cannot be written.
 */
export function finalize(live: LiveRun, terminal: TerminalRecord): void {
  if (isInactive(live)) return;
  live.finalizing = true;
  live.state = step(live.state, { type: terminal.type, outcome: terminal.outcome });
  live.descendants = Math.max(live.descendants, terminal.processes - 1);
  stopWatchers(live, "the run has ended");
  const at = endTime(live, terminal);
  const last = terminal.lastOutputAt ?? live.activity.lastOutputAt;
  const events = terminalEvents(runEventBase(live, at), terminal);
  live.context.track(
    live.facts.runId,
    commitTerminalRecord(
      live,
      live.writeQueue.enqueueTerminal(
        {
          to: "exited",
          at,
          ...(last === null ? {} : { lastOutputAt: clamp(last, startTime(live), at) }),
          ...terminal.outcome,
        },
        events,
      ),
    ),
  );
  live.endKnown.resolve(live.context.clock.now());
}

/**
 * The anchor's wall clock at the end, as the start is this supervisor's at GO. When that is before the start, the clock
 * was set back meanwhile: then the end is as long after the start as the run took on the monotonic clock.
 */
function endTime(live: LiveRun, { endedAt: told, durationMs = 0 }: TerminalRecord): number {
  const at = told ?? live.context.clock.wall();
  const start = startTime(live);
  return at < start ? start + durationMs : at;
}

/** Of a command that was never executed: when it was asked for. */
function startTime({ writeQueue }: LiveRun): number {
  return writeQueue.record.startedAt ?? writeQueue.record.createdAt;
}

function clamp(at: number, from: number, to: number): number {
  return Math.max(from, Math.min(at, to));
}

async function commitTerminalRecord(
  live: LiveRun,
  finished: ReturnType<LiveRun["writeQueue"]["enqueueTerminal"]>,
): Promise<void> {
  try {
    const record = await finished;
    live.context.runs.delete(live.facts.runId);
    live.ended.resolve(record);
    discardUnusedOutput(live);
  } catch (error) {
    // Closed before it could be committed: the run's directory stays and tells the next supervisor.
    live.ended.reject(error);
  }
}
