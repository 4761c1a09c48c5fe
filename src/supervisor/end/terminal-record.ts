import type { RunFiles, SpawnFailure } from "../../anchor/host.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { KillMode, OnEscape } from "../../model/run.js";
import type { Residue } from "../../model/process.js";
import type { DeadAnchorResult } from "./dead-anchor.js";
import type { RunEventBase } from "../run/live-run.js";
import { outcomeOfRunFiles } from "./outcome.js";
import type { RunOutcome } from "../run/state.js";

/** The end of a run, as it is recorded. */
export interface TerminalRecord {
  readonly outcome: RunOutcome;
  /** Whether the end was reported or inferred. */
  readonly type: "exited" | "lost";
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

const NOTHING_CLEANED = { mode: "none", cleaned: 0, ended: 0, survivors: 0, processes: 0 } as const;

export function spawnFailureRecord({ errno, message }: SpawnFailure): TerminalRecord {
  return {
    ...NOTHING_CLEANED,
    type: "exited",
    outcome: {
      exit: {
        reason: "spawn-error",
        actor: "",
        code: null,
        signal: null,
        source: "none",
        detail: message,
        errno: errno === 0 ? null : errno,
        limitHit: null,
      },
      residue: [],
      residueCount: 0,
      usage: null,
      emptiness: "proven",
    },
  };
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
