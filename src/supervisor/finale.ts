import type { RunRemains, SpawnFailure } from "../anchor/host.js";
import type { NewRunEvent } from "../store/run-event.js";
import type { KillMode, OnEscape, Residue } from "../store/run-record.js";
import type { Aftermath } from "./aftermath.js";
import type { EventFacts } from "./live-run.js";
import { outcomeOfRemains } from "./outcome.js";
import type { Ending } from "./run-state.js";

/** All there is to say about the end of a run. */
export interface Finale {
  readonly ending: Ending;
  /** Whether the end was seen or concluded. */
  readonly type: "exited" | "lost";
  readonly mode: KillMode;
  /** Processes that outlived the leader. */
  readonly cleaned: number;
  /** Processes that were ended besides the leader, by TERM or KILL: those, and the rest of a run that was stopped. */
  readonly ended: number;
  readonly survivors: number;
  /** Processes seen in the run's life, the leader included; 0: nobody counted. */
  readonly processes: number;
  /** When the anchor saw it end, on the wall clock, if that was told; otherwise now. */
  readonly endedAt?: number | null;
  /** How long it ran, on the monotonic clock. */
  readonly durationMs?: number;
  /** When the last of its output was written, if that was told. */
  readonly lastOutputAt?: number | null;
}

const NOTHING_CLEANED = { mode: "none", cleaned: 0, ended: 0, survivors: 0, processes: 0 } as const;

/** Nothing of the command ran. */
export function failureFinale({ errno, message }: SpawnFailure): Finale {
  return {
    ...NOTHING_CLEANED,
    type: "exited",
    ending: {
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

export const INTERRUPTED: SpawnFailure = {
  errno: 0,
  step: "interrupted",
  message: "its supervisor ended while it was being started; the command did not run",
};

type Lost = Extract<Aftermath, { kind: "lost" }>;

/** Its anchor is gone, and nobody saw the end. */
export function lostFinale(after: Lost, onEscape: OnEscape): Finale {
  const exit = { ...outcomeOfRemains(enforced(after)), ...(escaped(after, onEscape) ? ESCAPE : {}) };
  const { emptiness, by, killed, killMode, residue, alive, note } = after;
  return {
    type: "lost",
    ending: {
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
function enforced({ remains, emptiness, shared = false }: Lost): RunRemains | null {
  if (remains === null || remains.firstStop?.withoutAnchor !== true) return remains;
  if (emptiness === "proven" || remains.swept !== null || shared) return remains;
  return { ...remains, firstStop: { ...remains.firstStop, withoutAnchor: false } };
}

const ESCAPE = { reason: "ownership-escape" } as const;

/** The command had ended by itself, and what it left outlived its anchor too: found, and proven to be gone now. */
function escaped({ remains, by, emptiness, residue }: Lost, onEscape: OnEscape): boolean {
  const byItself = remains !== null && remains.leader !== null && remains.firstStop === null;
  return byItself && by === "reap" && emptiness === "proven" && residue.length > 0 && onEscape === "fail";
}

/** Written with the terminal row, in the same transaction. */
export function finalEvents(
  facts: EventFacts,
  { ending, mode, cleaned, ended, survivors }: Finale,
): NewRunEvent[] {
  const { exit, residue, emptiness } = ending;
  const { reason, actor, code, signal } = exit;
  const events: NewRunEvent[] = [];
  // Who is still there when a run is stopped has not escaped it.
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

/** In a session of its own, or outside the boundary: not a mere background job of the leader's. */
function isOutside({ kind }: Residue): boolean {
  return kind === "detached" || kind === "migrated";
}
