import type { AnchorExit, SpawnFailure } from "../../anchor/host.js";
import type { RunExit } from "../../model/run.js";
import { recordStart, stopWatchers } from "../run/lifecycle.js";
import { isInactive, type LiveRun, runEventBase } from "../run/live-run.js";
import { discardUnusedOutput, recordLostOutput } from "../run/output.js";
import { STREAMS } from "../run/output-ranges.js";
import { recordFirstStop } from "../run/request-stop.js";
import { step } from "../run/state.js";
import type { DeadAnchorResult } from "./dead-anchor.js";
import { outcomeOfExit } from "./outcome.js";
import {
  INTERRUPTED_SPAWN,
  lostRunRecord,
  spawnFailureRecord,
  terminalEvents,
  type TerminalRecord,
} from "./terminal-record.js";

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

/** The anchor said how it ended, on the wire or in the file it left. */
export function finalizeExit(live: LiveRun, exit: AnchorExit, source: "anchor" | "exit-file"): void {
  for (const stream of STREAMS) {
    recordLostOutput(live, stream, exit[stream].lost ?? 0);
    const more = live.outputRanges.update(stream, { ...exit[stream], closed: true });
    // An exit file may be old: the time of the last output then comes from the spool.
    if (more && source === "anchor") live.activity.onOutput();
  }
  if (exit.executed) recordStart(live, (exit.endedAt ?? live.context.clock.wall()) - exit.durationMs);
  recordTier(live, exit);
  reportDroppedOutput(live, exit);
  // Said in the exit too, for whoever did not hear it from the anchor in time.
  if (exit.requestId !== "" || exit.actor !== "") {
    const { reason, actor, requestId } = exit;
    live.firstStop ??= { reason, actor, requestId };
    // What ended a run that nobody attended is in its end, and in the decision to finalize it.
    if (source === "anchor") recordFirstStop(live, live.firstStop);
  }
  live.failure ??= exit.spawnError;
  const outcome = outcomeOfExit(exit, source, live.facts.attempt);
  const { residue, residueCount, emptiness, usage, processes } = exit;
  finalize(live, {
    type: "exited",
    outcome: {
      exit: exit.executed ? outcome : withSpawnFailure(outcome, live.failure),
      residue,
      residueCount,
      emptiness,
      usage: { ...usage, processes },
    },
    mode: exit.killMode,
    cleaned: residueCount,
    ...countEndedProcesses(exit),
    processes,
    endedAt: exit.endedAt,
    durationMs: exit.durationMs,
    lastOutputAt: exit.lastOutputAt ?? null,
  });
}

/** Processes besides the leader: those that were ended, and those that an operator gave up on. */
function countEndedProcesses(exit: AnchorExit): Pick<TerminalRecord, "ended" | "survivors"> {
  const { residueCount, killMode, emptiness, cleaned = null } = exit;
  // No process was signalled: the remaining ones exited by themselves.
  const signalled = killMode === "none" ? 0 : (cleaned ?? residueCount);
  const survivors = emptiness === "unproven" ? residueCount : 0;
  return { ended: Math.max(0, signalled - survivors), survivors };
}

/** With back-pressure nothing is dropped but what the disk would not take. */
function reportDroppedOutput(live: LiveRun, exit: AnchorExit): void {
  const { runId, withholdAt } = live.facts;
  for (const stream of STREAMS) {
    const { dropped } = exit[stream];
    if (live.facts.attempt === null || withholdAt[stream] === null || dropped === 0) continue;
    const message = `run ${runId}: ${dropped} bytes of its output (${stream}) were lost, because they could not be written to the disk`;
    live.context.report({ runId, message, cause: null });
  }
}

/** A guarantee that became weaker on the way is recorded, never silent. */
function recordTier(live: LiveRun, { tier, tierNote }: AnchorExit): void {
  const { boundary } = live.recordedIdentity;
  if (tier === null || live.tier === null || tier === live.tier || boundary === null) return;
  live.tier = tier;
  live.writeQueue.enqueue({ to: "weaker", tier, boundary: { ...boundary, note: tierNote } });
}

/** The anchor only knows that nobody said GO; this supervisor may know why. */
function withSpawnFailure(outcome: RunExit, failure: SpawnFailure | null): RunExit {
  if (failure === null || outcome.reason !== "spawn-error") return outcome;
  return { ...outcome, detail: failure.message, errno: failure.errno === 0 ? null : failure.errno };
}

/** Nothing of the command ran, and nobody is left to say so. */
export function finalizeSpawnFailure(live: LiveRun, failure: SpawnFailure): void {
  live.failure ??= failure;
  finalize(live, spawnFailureRecord(failure));
}

/** False: nothing can be concluded yet. */
export function finalizeDeadAnchor(live: LiveRun, deadAnchor: DeadAnchorResult): boolean {
  switch (deadAnchor.kind) {
    case "exit":
      finalizeExit(live, deadAnchor.exit, "exit-file");
      return true;
    case "anchor-alive":
      return false;
    case "given-up":
      return true;
    case "never-executed":
      finalizeSpawnFailure(live, live.failure ?? INTERRUPTED_SPAWN);
      return true;
    case "lost":
      finalize(live, lostRunRecord(deadAnchor, live.facts.policy.onEscape));
      return true;
  }
}
