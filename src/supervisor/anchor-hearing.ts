import { eventFacts, type LiveRun } from "./live-run.js";

/** Silence of one anchor, as this supervisor hears it. Times are the clock's. */
export interface AnchorHearing {
  /** The last sign of life. */
  heardAt: number;
  /** A STATUS is out since then. */
  askedAt: number | null;
  /** It was sent SIGCONT then, and has not answered since. Null: it answers, as far as is known. */
  continuedAt: number | null;
  /** When the first stop was asked for here. */
  stopAt: number | null;
  /** How often it fell silent after that. */
  silences: number;
  /** Something is being done about it. */
  busy: boolean;
  /** The last event about it. */
  notedAt: number;
}

export function newHearing(now: number): AnchorHearing {
  return {
    heardAt: now,
    askedAt: null,
    continuedAt: null,
    stopAt: null,
    silences: 0,
    busy: false,
    notedAt: -Infinity,
  };
}

/** Its anchor has said something. */
export function heard(live: LiveRun): void {
  const { hearing, context } = live;
  hearing.heardAt = context.clock.now();
  hearing.askedAt = null;
  if (hearing.continuedAt === null) return;
  const silentMs = Math.round(hearing.heardAt - hearing.continuedAt);
  hearing.continuedAt = null;
  const at = context.clock.wall();
  live.journal.note(null, [{ ...eventFacts(live, at), type: "anchor-answers", data: { silentMs } }]);
}

/** A stop was sent: its anchor has to answer now. */
export function expectAnswer(live: LiveRun): void {
  live.hearing.stopAt ??= live.context.clock.now();
  live.context.anchors.soon();
}
