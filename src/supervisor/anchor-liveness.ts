import { eventFacts, type LiveRun } from "./live-run.js";

/** When an anchor last answered, and what was done about its silence. Times are of `Clock`. */
export interface AnchorLiveness {
  /** When the last message came. */
  lastMessageAt: number;
  /** When a STATUS was sent that is not answered yet. */
  askedAt: number | null;
  /** It was sent SIGCONT then, and has not answered since. Null: it answers, as far as is known. */
  continuedAt: number | null;
  /** When the first stop was asked for here. */
  stopAt: number | null;
  /** How many times the anchor stopped answering after that. */
  silences: number;
  /** True while `handleUnresponsive` runs. */
  busy: boolean;
  /** The last event about it. */
  notedAt: number;
}

export function newLiveness(now: number): AnchorLiveness {
  return {
    lastMessageAt: now,
    askedAt: null,
    continuedAt: null,
    stopAt: null,
    silences: 0,
    busy: false,
    notedAt: -Infinity,
  };
}

/** Its anchor has said something. */
export function anchorAnswered(live: LiveRun): void {
  const { liveness, context } = live;
  liveness.lastMessageAt = context.clock.now();
  liveness.askedAt = null;
  if (liveness.continuedAt === null) return;
  const silentMs = Math.round(liveness.lastMessageAt - liveness.continuedAt);
  liveness.continuedAt = null;
  const at = context.clock.wall();
  live.journal.note(null, [{ ...eventFacts(live, at), type: "anchor-answers", data: { silentMs } }]);
}

/** A stop was sent: its anchor has to answer now. */
export function expectAnswer(live: LiveRun): void {
  live.liveness.stopAt ??= live.context.clock.now();
  live.context.anchors.soon();
}
