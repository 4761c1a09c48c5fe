import { defaults } from "../defaults.js";
import { handleUnresponsive } from "./unresponsive-anchor.js";
import type { Clock, Timer } from "./clock.js";
import { isOver, type LiveRun } from "./live-run.js";
import { regain } from "./regain.js";

/**
 * Notices anchors that do not answer: a connected one that has said nothing for a while is asked how it is. One look for
 * all runs, soon while one is being stopped or asked, seldom otherwise.
 */
export class AnchorWatch {
  readonly #clock: Clock;
  readonly #live: () => Iterable<LiveRun>;
  #timer: Timer | null = null;
  #dueAt = Infinity;
  #stopped = false;

  constructor(clock: Clock, live: () => Iterable<LiveRun>) {
    this.#clock = clock;
    this.#live = live;
  }

  /** There is something to watch. */
  start(): void {
    this.#lookIn(defaults.anchorAskMs / 2);
  }

  /** An answer is expected. */
  soon(): void {
    this.#lookIn(LOOK_SOON_MS);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #lookIn(ms: number): void {
    const at = this.#clock.now() + ms;
    if (this.#stopped || at >= this.#dueAt) return;
    this.#timer?.cancel();
    this.#dueAt = at;
    this.#timer = this.#clock.after(ms, () => this.#look());
  }

  #look(): void {
    const now = this.#clock.now();
    // This process itself was stopped or starved: answers of anchors are not read yet.
    const late = now - this.#dueAt > LATE_MS;
    this.#dueAt = Infinity;
    let any = false;
    for (const live of this.#live()) {
      any = true;
      if (late && live.liveness.askedAt !== null) live.liveness.askedAt = now;
      if (watch(live, now)) this.soon();
    }
    if (any) this.start();
  }
}

/** True: check this run again soon. A run without a connection is handled by the reconnect. */
function watch(live: LiveRun, now: number): boolean {
  const { liveness, link } = live;
  if (isOver(live) || link === null) return false;
  // While it is being started or stopped, it has something to say.
  const isDue = live.asked !== null || live.state.name === "starting";
  if (liveness.busy) return true;
  if (liveness.askedAt !== null && now - liveness.askedAt >= defaults.anchorAnswerMs) {
    live.context.track(live.facts.runId, attend(live));
    return true;
  }
  if (
    liveness.askedAt === null &&
    now - liveness.lastMessageAt >= (isDue ? ASK_SOON_MS : defaults.anchorAskMs)
  )
    ask(live, now);
  return isDue || liveness.askedAt !== null;
}

async function attend(live: LiveRun): Promise<void> {
  await handleUnresponsive(live);
  // If the connection ended meanwhile, nothing else reconnects.
  if (live.link === null && !isOver(live) && !live.regaining) await regain(live);
}

function ask({ liveness, link }: LiveRun, now: number): void {
  liveness.askedAt = now;
  link?.status();
}

/** While an answer is waited for. */
const LOOK_SOON_MS = 500;
/** A check that runs later than this shows that this process was delayed, not that anchors are silent. */
const LATE_MS = 2_000;
/** For a run that is being started or stopped: its anchor should send messages by itself. */
const ASK_SOON_MS = 1_000;
