import { eventFacts, type LiveRun } from "./live-run.js";

/** When an anchor last answered, and what was done about its silence. Times are of `Clock`. */
export interface AnchorHearing {
  /** When the last message came. */
  heardAt: number;
  /** When a STATUS was sent that is not answered yet. */
  askedAt: number | null;
  /** It was sent SIGCONT then, and has not answered since. Null: it answers, as far as is known. */
  continuedAt: number | null;
  /** When the first stop was asked for here. */
  stopAt: number | null;
  /** How many times the anchor stopped answering after that. */
  silences: number;
  /** True while `attendSilence` runs. */
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
