import type {
  AnchorExit,
  LeaderStatus,
  RunFiles,
  SpawnFailure,
  SweptFile,
} from "../../anchor/host-interface.js";
import { describeSpawnFailure, type StartAttempt } from "../../anchor/protocol/errors.js";
import { END_REASONS } from "../../model/enums.js";
import type { Residue } from "../../model/process.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { Emptiness, EndReason, KillMode, OnEscape, RunExit, RunRecord } from "../../model/run.js";
import type { RunStore } from "../../store/runs/contract.js";
import { signalName } from "../../text/signal-name.js";
import type { RunEventBase } from "../run/live-run.js";
import type { RunOutcome } from "../run/state-machine.js";
import type { DeadAnchorResult } from "./without-anchor.js";

/** The outcome of a run, from its anchor's exit report. */
export function outcomeOfExit(
  exit: AnchorExit,
  source: "anchor" | "exit-file",
  attempt: StartAttempt | null = null,
): RunExit {
  const reason = parseEndReason(exit.reason);
  return {
    reason: reason ?? impliedReason(exit),
    actor: exit.actor,
    ...leaderExit(exit.leader),
    source: exit.leader === null ? "none" : source,
    detail: exitDetail(exit, reason, attempt),
    errno: exit.spawnError?.errno ?? null,
    limitHit: exit.limitHit,
  };
}

const NO_STATUS = { code: null, signal: null, source: "none", errno: null, limitHit: null } as const;

/** The outcome of a run without an anchor, from the files in its directory. Null: it was imported and has none. */
export function outcomeOfRunFiles(runFiles: RunFiles | null, attempt: StartAttempt | null = null): RunExit {
  if (runFiles === null) return { ...NO_STATUS, reason: "lost", actor: "", detail: null };
  if (runFiles.exit !== null) return outcomeOfExit(runFiles.exit, "exit-file", attempt);
  const { firstStop } = runFiles;
  const enforced = firstStop?.withoutAnchor === true ? parseEndReason(firstStop.reason) : null;
  return {
    ...NO_STATUS,
    reason: enforced ?? "lost",
    // The anchor may have died during a stop, so its actor is recorded.
    actor: firstStop?.actor ?? "",
    ...leaderExit(runFiles.leader),
    source: runFiles.leader === null ? "none" : "leader-file",
    detail: enforced === null ? lostDetail(runFiles) : enforcedDetail(runFiles),
  };
}

/** Null: an unknown reason, from an anchor of a newer version. */
export function parseEndReason(text: string): EndReason | null {
  return END_REASONS.find((reason) => reason === text) ?? null;
}

function impliedReason({ executed, leader }: AnchorExit): EndReason {
  if (!executed) return "spawn-error";
  if (leader === null) return "lost";
  return leader.signal === null ? "exit" : "signal";
}

function exitDetail(exit: AnchorExit, reason: EndReason | null, attempt: StartAttempt | null): string | null {
  if (exit.spawnError !== null) return describeSpawnFailure(exit.spawnError, attempt);
  if (reason === null)
    return `the anchor reported a reason that this version does not know: ${JSON.stringify(exit.reason)}`;
  if (!exit.executed) return "it was stopped before the command ran one instruction";
  if (exit.emptiness === "unproven" && exit.emptinessNote) return `emptiness unproven: ${exit.emptinessNote}`;
  return null;
}

/** Detail of a run that was stopped without its anchor, for the stop's reason. */
function enforcedDetail({ swept }: RunFiles): string {
  const silent = "its anchor did not answer, so the run was ended without it";
  if (swept === null) return silent;
  const { killed, emptiness } = swept;
  const ended = killed === 1 ? "1 process was killed" : `${killed} processes were killed`;
  return `${silent}; ${ended}${emptiness === "proven" ? "" : ", and whether others are alive is not known"}`;
}

function lostDetail({ swept, firstStop }: RunFiles): string {
  const asked = firstStop === null ? "" : `; a stop had been requested (${firstStop.reason})`;
  if (swept === null) return `its anchor ended without a report${asked}`;
  return `its anchor ${describeAnchorEnd(swept)}${asked}; ${describeCleanup(swept)}`;
}

function describeAnchorEnd({ anchorSignal }: SweptFile): string {
  return anchorSignal === null ? "ended without finishing" : `was killed by ${signalName(anchorSignal)}`;
}

function describeCleanup({ killed, emptiness }: SweptFile): string {
  const left = killed === 1 ? "1 process" : `${killed} processes`;
  if (emptiness === "unproven") return `the launcher killed ${left} but could not prove that none is left`;
  return killed === 0 ? "it left no process" : `the launcher killed the ${left} that it left`;
}

function leaderExit(leader: LeaderStatus | null): Pick<RunExit, "code" | "signal"> {
  if (leader === null) return { code: null, signal: null };
  return leader.signal === null
    ? { code: leader.code, signal: null }
    : { code: null, signal: signalName(leader.signal) };
}

/** The end of a run, as it is recorded. */
export interface TerminalRecord {
  readonly outcome: RunOutcome;
  /** The end was reported, or inferred. */
  readonly type: "exited" | "lost";
  /** The anchor reported the end itself: nothing of the run is left to look for. */
  readonly anchorFinished?: boolean;
  readonly mode: KillMode;
  /** Processes that outlived the leader. */
  readonly cleaned: number;
  /** Processes besides the leader that were ended by TERM or KILL. */
  readonly ended: number;
  readonly survivors: number;
  /** Processes seen during the run, with the leader; 0: not counted. */
  readonly processes: number;
  /** When the anchor saw the end, on the wall clock; absent or null: now. */
  readonly endedAt?: number | null;
  /** Duration on the monotonic clock. */
  readonly durationMs?: number;
  /** Time of the last output, if the anchor reported it. */
  readonly lastOutputAt?: number | null;
}

function withoutProcesses(exit: RunExit, emptiness: Emptiness): TerminalRecord {
  return {
    type: "exited",
    outcome: { exit, residue: [], residueCount: 0, usage: null, emptiness },
    mode: "none",
    cleaned: 0,
    ended: 0,
    survivors: 0,
    processes: 0,
  };
}

export function spawnFailureRecord({ errno, message }: SpawnFailure): TerminalRecord {
  const cause = { detail: message, errno: errno === 0 ? null : errno };
  return withoutProcesses({ ...NO_STATUS, reason: "spawn-error", actor: "", ...cause }, "proven");
}

export const INTERRUPTED_SPAWN: SpawnFailure = {
  errno: 0,
  step: "interrupted",
  message: "its supervisor ended during the start; the command did not run",
};

type LostRun = Extract<DeadAnchorResult, { kind: "lost" }>;

/** The record of a run whose anchor died before the end. */
export function lostRunRecord(deadAnchor: LostRun, onEscape: OnEscape): TerminalRecord {
  const exit = {
    ...outcomeOfRunFiles(withEnforcedStop(deadAnchor)),
    ...(isEscape(deadAnchor, onEscape) ? ESCAPE_REASON : {}),
  };
  const { emptiness, by, killed, killMode, residue, alive, note } = deadAnchor;
  return {
    type: "lost",
    outcome: {
      exit: note === null ? exit : { ...exit, detail: [exit.detail, note].filter(Boolean).join("; ") },
      residue,
      residueCount: by === "reap" ? killed : 0,
      usage: null,
      emptiness,
    },
    mode: killMode,
    cleaned: killed,
    ended: killed,
    survivors: alive.length,
    processes: 0,
  };
}

/** The stop's reason counts only when the run was ended without its anchor and the outcome is known. */
function withEnforcedStop({ runFiles, emptiness, sharedAnchor: shared = false }: LostRun): RunFiles | null {
  if (runFiles === null || runFiles.firstStop?.withoutAnchor !== true) return runFiles;
  if (emptiness === "proven" || runFiles.swept !== null || shared) return runFiles;
  return { ...runFiles, firstStop: { ...runFiles.firstStop, withoutAnchor: false } };
}

const ESCAPE_REASON = { reason: "ownership-escape" } as const;

/** The command ended by itself, its residue outlived the anchor, and was killed by us. */
function isEscape({ runFiles, by, emptiness, residue }: LostRun, onEscape: OnEscape): boolean {
  const byItself = runFiles !== null && runFiles.leader !== null && runFiles.firstStop === null;
  return byItself && by === "reap" && emptiness === "proven" && residue.length > 0 && onEscape === "fail";
}

/** Written with the terminal row, in the same transaction. */
export function terminalEvents(
  facts: RunEventBase,
  { outcome: ending, mode, cleaned, ended, survivors }: TerminalRecord,
): NewRunEvent[] {
  const { exit, residue, emptiness } = ending;
  const { reason, actor, code, signal } = exit;
  const events: NewRunEvent[] = [];
  // Processes that are alive when a run is stopped are no escapes.
  const byItself = reason === "exit" || reason === "signal" || reason === "ownership-escape";
  const outside = byItself ? residue.filter(isOutside) : [];
  if (outside.length > 0)
    events.push({
      ...facts,
      type: "escape",
      data: { residue: outside.map(({ pid, kind, command }) => ({ pid, kind, command })) },
    });
  if (cleaned > 0 || ended > 0 || survivors > 0)
    events.push({ ...facts, type: "cleanup", data: { mode, residue: cleaned, ended, survivors } });
  events.push({ ...facts, type: "exit", data: { reason, actor, code, signal, emptiness } });
  return events;
}

/** In another session or outside the boundary; a background job of the leader is neither. */
function isOutside({ kind }: Residue): boolean {
  return kind === "detached" || kind === "migrated";
}

/**
 * Ends the record of a run as lost and unproven, because an operator says that its host or state directory will not come
 * back. Nothing is signalled; if the host does come back, it stops the run. False: nothing was written, because the lease
 * has not expired or another supervisor has taken it.
 */
export async function forgetRun(
  store: Pick<RunStore, "acquireAndFinalizeRun">,
  { runId, ownerInstanceId, leaseEpoch, root }: RunRecord,
  actor: string,
  {
    detail = "it was abandoned by an operator; whether processes of it still run is not known",
    expiredForMs = 0,
  }: { readonly detail?: string; readonly expiredForMs?: number | null } = {},
): Promise<boolean> {
  const at = Date.now();
  const from = { ownerInstanceId, epoch: leaseEpoch };
  const claim = { runId, from, ownerInstanceId, epoch: leaseEpoch + 1, leaseMs: 0, expiredForMs };
  const terminal = withoutProcesses({ ...NO_STATUS, reason: "lost", actor, detail }, "unproven");
  const events = terminalEvents({ runId, at, rootPid: root?.pid ?? null, descendants: 0 }, terminal);
  return store.acquireAndFinalizeRun(claim, { to: "exited", at, ...terminal.outcome }, events);
}
