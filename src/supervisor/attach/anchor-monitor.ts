import type { Clock, Timer } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import { isInactive, type LiveRun } from "../run/live-run.js";
import { reattach } from "./reattach.js";
import { handleUnresponsiveAnchor } from "./unresponsive-anchor.js";

/**
 * Detects anchors that do not answer, by a STATUS request after a while without a message. One timer for all runs; its
 * interval is short while a run is started or stopped or an answer is due.
 */
export class AnchorMonitor {
  readonly #clock: Clock;
  readonly #runs: () => Iterable<LiveRun>;
  #timer: Timer | null = null;
  #dueAt = Infinity;
  #stopped = false;

  constructor(clock: Clock, runs: () => Iterable<LiveRun>) {
    this.#clock = clock;
    this.#runs = runs;
  }

  checkLater(): void {
    this.#checkIn(defaults.anchorAskMs / 2);
  }

  checkSoon(): void {
    this.#checkIn(CHECK_SOON_MS);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #checkIn(ms: number): void {
    const at = this.#clock.now() + ms;
    if (this.#stopped || at >= this.#dueAt) return;
    this.#timer?.cancel();
    this.#dueAt = at;
    this.#timer = this.#clock.setTimer(ms, () => this.#check());
  }

  #check(): void {
    const now = this.#clock.now();
    // This process was suspended or starved, so it has not read the answers yet.
    const late = now - this.#dueAt > LATE_CHECK_MS;
    this.#dueAt = Infinity;
    let any = false;
    for (const live of this.#runs()) {
      any = true;
      if (late && live.anchorLiveness.statusSentAt !== null) live.anchorLiveness.statusSentAt = now;
      if (checkRun(live, now)) this.checkSoon();
    }
    if (any) this.checkLater();
  }
}

/** True: check this run again soon. `reattach` handles a run without a connection. */
function checkRun(live: LiveRun, now: number): boolean {
  const { anchorLiveness: liveness, link } = live;
  if (isInactive(live) || link === null) return false;
  // During start and stop, the anchor should send messages by itself.
  const isDue = live.requestedStop !== null || live.state.name === "starting";
  if (liveness.handling) return true;
  if (liveness.statusSentAt !== null && now - liveness.statusSentAt >= defaults.anchorAnswerMs) {
    live.context.track(live.facts.runId, handleSilence(live));
    return true;
  }
  if (
    liveness.statusSentAt === null &&
    now - liveness.lastMessageAt >= (isDue ? STATUS_SOON_MS : defaults.anchorAskMs)
  )
    requestStatus(live, now);
  return isDue || liveness.statusSentAt !== null;
}

async function handleSilence(live: LiveRun): Promise<void> {
  try {
    await handleUnresponsiveAnchor(live);
  } finally {
    // If the connection ended meanwhile, nothing else reconnects.
    if (live.link === null && !isInactive(live) && !live.reattaching)
      live.context.track(live.facts.runId, reattach(live));
  }
}

function requestStatus({ anchorLiveness: liveness, link }: LiveRun, now: number): void {
  liveness.statusSentAt = now;
  link?.requestStatus();
}

/** Interval while an answer is due. */
const CHECK_SOON_MS = 500;
/** A check that runs later than this shows that this process was delayed, not that anchors are silent. */
const LATE_CHECK_MS = 2_000;
/** Silence before a STATUS request, while the run is started or stopped. */
const STATUS_SOON_MS = 1_000;
