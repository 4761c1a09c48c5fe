import { defaults } from "../defaults.js";
import { attendSilence } from "./anchor-silence.js";
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
    // This process was stopped or starved itself: what anchors have answered meanwhile is still to be read.
    const late = now - this.#dueAt > LATE_MS;
    this.#dueAt = Infinity;
    let any = false;
    for (const live of this.#live()) {
      any = true;
      if (late && live.hearing.askedAt !== null) live.hearing.askedAt = now;
      if (watch(live, now)) this.soon();
    }
    if (any) this.start();
  }
}

/** True: to be looked at again soon. Who is not connected is seen to by who connects. */
function watch(live: LiveRun, now: number): boolean {
  const { hearing, link } = live;
  if (isOver(live) || link === null) return false;
  // While it is being started or stopped, it has something to say.
  const isDue = live.asked !== null || live.state.name === "starting";
  if (hearing.busy) return true;
  if (hearing.askedAt !== null && now - hearing.askedAt >= defaults.anchorAnswerMs) {
    live.context.track(live.facts.runId, attend(live));
    return true;
  }
  if (hearing.askedAt === null && now - hearing.heardAt >= (isDue ? ASK_SOON_MS : defaults.anchorAskMs))
    ask(live, now);
  return isDue || hearing.askedAt !== null;
}

async function attend(live: LiveRun): Promise<void> {
  await attendSilence(live);
  // A connection that ends meanwhile is nobody else's to see to.
  if (live.link === null && !isOver(live) && !live.regaining) await regain(live);
}

function ask({ hearing, link }: LiveRun, now: number): void {
  hearing.askedAt = now;
  link?.status();
}

/** While an answer is waited for. */
const LOOK_SOON_MS = 500;
/** A look that is later than this tells of this process, not of anchors. */
const LATE_MS = 2_000;
/** Of one that should say something by itself. */
const ASK_SOON_MS = 1_000;
