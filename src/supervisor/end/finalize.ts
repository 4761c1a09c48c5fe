import type { AnchorExit, SpawnFailure } from "../../anchor/host-interface.js";
import type { RunExit } from "../../model/run.js";
import { stopWatchers } from "../run/stop-and-detach.js";
import { recordStart } from "../run/record-start.js";
import { recordFirstStop } from "../run/request-stop.js";
import { isInactive, type LiveRun, runEventBase } from "../run/live-run.js";
import { STREAMS } from "../run/output-ranges.js";
import { discardUnusedOutput, recordLostOutput } from "../run/output.js";
import { step } from "../run/state-machine.js";
import {
  INTERRUPTED_SPAWN,
  lostRunRecord,
  outcomeOfExit,
  spawnFailureRecord,
  terminalEvents,
  type TerminalRecord,
} from "./terminal-record.js";
import type { DeadAnchorResult } from "./without-anchor.js";

/**
 * Writes the terminal record of a run. Idempotent: the first call counts. The record and its events are one transaction,
 * repeated until it is committed; then `wait` resolves and the run's directory may be removed. `end` does not wait for
 * a store that cannot be written.
 */
export function finalize(live: LiveRun, terminal: TerminalRecord): void {
  if (isInactive(live)) return;
  live.finalizing = true;
  live.state = step(live.state, { type: terminal.type, outcome: terminal.outcome });
  live.descendants = Math.max(live.descendants, terminal.processes - 1);
  live.lastOutput.stop();
  const at = endTime(live, terminal);
  const last = terminal.lastOutputAt ?? live.lastOutput.lastOutputAt;
  const events = terminalEvents(runEventBase(live, at), terminal);
  const finished = live.writeQueue.enqueueTerminal(
    {
      to: "exited",
      at,
      ...(last === null ? {} : { lastOutputAt: clamp(last, startTime(live), at) }),
      ...terminal.outcome,
    },
    events,
  );
  // While the disk syncs.
  stopWatchers(live, "the run has ended");
  live.context.track(live.facts.runId, commitTerminalRecord(live, finished, terminal));
  live.endKnown.resolve(live.context.clock.now());
}

/**
 * The anchor's wall clock at the end. If that is before the start, the clock was set back: then the end is the start plus
 * the duration on the monotonic clock.
 */
function endTime(live: LiveRun, { endedAt, durationMs = 0 }: TerminalRecord): number {
  const at = endedAt ?? live.context.clock.wall();
  const start = startTime(live);
  return at < start ? start + durationMs : at;
}

/** For a command that was never executed: when it was requested. */
function startTime({ writeQueue }: LiveRun): number {
  return writeQueue.record.startedAt ?? writeQueue.record.createdAt;
}

function clamp(at: number, from: number, to: number): number {
  return Math.max(from, Math.min(at, to));
}

async function commitTerminalRecord(
  live: LiveRun,
  finished: ReturnType<LiveRun["writeQueue"]["enqueueTerminal"]>,
  { anchorFinished = false }: TerminalRecord,
): Promise<void> {
  const { context, facts } = live;
  try {
    const record = await finished;
    context.runs.delete(facts.runId);
    // Otherwise each pass of reconciliation would look for the anchors of all runs that have ended since the last one.
    if (anchorFinished && record.emptiness === "proven") context.cleanedUp.add(facts.runId);
    live.ended.resolve(record);
    discardUnusedOutput(live);
  } catch (error) {
    // The queue was closed before the commit: the next supervisor reads the end from the run's directory.
    live.ended.reject(error);
  }
}

/** Finalizes a run by the anchor's exit report, from the connection or from the exit file. */
export function finalizeExit(live: LiveRun, exit: AnchorExit, source: "anchor" | "exit-file"): void {
  for (const stream of STREAMS) {
    recordLostOutput(live, stream, exit[stream].lost ?? 0);
    const more = live.outputRanges.update(stream, { ...exit[stream], closed: true });
    // An exit file may be old; then the time of the last output comes from the spool.
    if (more && source === "anchor") live.lastOutput.onOutput();
  }
  if (exit.executed) recordStart(live, (exit.endedAt ?? live.context.clock.wall()) - exit.durationMs);
  recordTier(live, exit);
  reportDroppedOutput(live, exit);
  // The exit repeats the first stop, in case its own message was not received.
  if (exit.requestId !== "" || exit.actor !== "") {
    const { reason, actor, requestId } = exit;
    live.firstStop ??= { reason, actor, requestId };
    // For a run without a supervisor, the terminal record and the reconcile event contain the reason.
    if (source === "anchor") recordFirstStop(live, live.firstStop);
  }
  live.failure ??= exit.spawnError;
  const outcome = outcomeOfExit(exit, source, live.facts.attempt);
  const { residue, residueCount, emptiness, usage, processes } = exit;
  finalize(live, {
    type: "exited",
    anchorFinished: source === "anchor",
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
  const { residueCount, killMode, emptiness, reason, cleaned = null } = exit;
  // No process was signalled: the remaining ones exited by themselves.
  const signalled = killMode === "none" ? 0 : (cleaned ?? residueCount);
  const survivors = emptiness === "unproven" && reason === "lost" ? residueCount : 0;
  return { ended: Math.max(0, signalled - survivors), survivors };
}

/** With back-pressure, output is dropped only if it cannot be written to the disk. */
function reportDroppedOutput(live: LiveRun, exit: AnchorExit): void {
  const { runId, withholdAt } = live.facts;
  for (const stream of STREAMS) {
    const { dropped } = exit[stream];
    if (live.facts.attempt === null || withholdAt[stream] === null || dropped === 0) continue;
    const message = `run ${runId}: ${dropped} bytes of ${stream} are lost: they could not be written to the disk`;
    live.context.report({ runId, message, cause: null });
  }
}

/** Records that the tier became weaker during the run. */
function recordTier(live: LiveRun, { tier, tierNote }: AnchorExit): void {
  const { boundary } = live.recordedIdentity;
  if (tier === null || live.tier === null || tier === live.tier || boundary === null) return;
  live.tier = tier;
  live.writeQueue.enqueue({ to: "weaker", tier, boundary: { ...boundary, note: tierNote } });
}

/** The anchor knows only that it got no GO; this supervisor may know why. */
function withSpawnFailure(outcome: RunExit, failure: SpawnFailure | null): RunExit {
  if (failure === null || outcome.reason !== "spawn-error") return outcome;
  return { ...outcome, detail: failure.message, errno: failure.errno === 0 ? null : failure.errno };
}

/** Finalizes a run whose command was never executed and that has no anchor. */
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
