import { runEventBase, type LiveRun } from "./run/live-run.js";

/** When an anchor last answered, and what was done about its silence. Times are of `Clock`. */
export interface AnchorLiveness {
  /** When the last message came. */
  lastMessageAt: number;
  /** When a STATUS was sent that is not answered yet. */
  statusSentAt: number | null;
  /** It was sent SIGCONT then, and has not answered since. Null: it answers, as far as is known. */
  continuedAt: number | null;
  /** When the first stop was asked for here. */
  stopSentAt: number | null;
  /** How many times the anchor stopped answering after that. */
  silencesAfterStop: number;
  /** True while `handleUnresponsive` runs. */
  handling: boolean;
  /** The last event about it. */
  reportedAt: number;
}

export function initialAnchorLiveness(now: number): AnchorLiveness {
  return {
    lastMessageAt: now,
    statusSentAt: null,
    continuedAt: null,
    stopSentAt: null,
    silencesAfterStop: 0,
    handling: false,
    reportedAt: -Infinity,
  };
}

/** Its anchor has said something. */
export function recordAnchorAnswer(live: LiveRun): void {
  const { anchorLiveness: liveness, context } = live;
  liveness.lastMessageAt = context.clock.now();
  liveness.statusSentAt = null;
  if (liveness.continuedAt === null) return;
  const silentMs = Math.round(liveness.lastMessageAt - liveness.continuedAt);
  liveness.continuedAt = null;
  const at = context.clock.wall();
  live.writeQueue.enqueue(null, [{ ...runEventBase(live, at), type: "anchor-answers", data: { silentMs } }]);
}

/** A stop was sent: its anchor has to answer now. */
export function expectAnchorAnswer(live: LiveRun): void {
  live.anchorLiveness.stopSentAt ??= live.context.clock.now();
  live.context.anchorMonitor.checkSoon();
}
