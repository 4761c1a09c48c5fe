import type { StopRequest } from "../../anchor/host.js";
import { NO_DEADLINES, type RunDeadlines } from "../../model/run.js";
import type { Clock, Timer } from "../../async/clock.js";

/** Longer timers fire at once (they are 32-bit); a countdown takes them in several steps. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Aborts when the monotonic clock reaches the due time. Pushing the due time back leaves the timer alone: it looks
 * at the clock when it fires, so a million pushes cost a million assignments, and nothing drifts.
 */
class Countdown {
  readonly #controller = new AbortController();
  readonly #clock: Clock;
  readonly #reason: StopRequest;
  #dueAt = Infinity;
  #timer: Timer | null = null;

  constructor(clock: Clock, reason: StopRequest, onAbort: (stop: StopRequest) => void) {
    this.#clock = clock;
    this.#reason = reason;
    const { signal } = this.#controller;
    signal.addEventListener("abort", () => onAbort(signal.reason as StopRequest), { once: true });
  }

  /** Infinity: never, until told otherwise. */
  setDue(inMs: number): void {
    this.#dueAt = this.#clock.now() + inMs;
    if (this.#timer === null) this.#watch();
  }

  abort(reason: StopRequest): void {
    this.disarm();
    this.#controller.abort(reason);
  }

  disarm(): void {
    this.#dueAt = Infinity;
    this.#timer?.cancel();
    this.#timer = null;
  }

  #watch(): void {
    this.#timer = null;
    if (this.#dueAt === Infinity) return;
    const left = this.#dueAt - this.#clock.now();
    if (left <= 0) return this.abort(this.#reason);
    this.#timer = this.#clock.setTimer(Math.min(Math.ceil(left), LONGEST_TIMER_MS), () => this.#watch());
  }
}

function deadlineStop(reason: "overall-timeout" | "no-output-timeout"): StopRequest {
  return { reason, actor: "deadline", requestId: "", graceMs: null };
}

/**
 * One tree of AbortControllers per run. The root is the manual cancel; its children are the overall and the no-output
 * deadline. Whichever aborts first carries the reason; the others fall silent. The anchor holds both deadlines too,
 * and acts on them when nobody here does.
 */
export class Deadlines {
  readonly #root = new AbortController();
  #limits: RunDeadlines;
  readonly #onStop: (stop: StopRequest) => void;
  readonly #overall: Countdown | null;
  readonly #noOutput: Countdown | null;
  #armed = false;
  #withheld = false;

  constructor(clock: Clock, limits: RunDeadlines, onStop: (stop: StopRequest) => void) {
    this.#limits = limits;
    this.#onStop = onStop;
    const child = (reason: StopRequest): Countdown =>
      new Countdown(clock, reason, (stop) => this.requestStop(stop));
    this.#overall = limits.overallMs === null ? null : child(deadlineStop("overall-timeout"));
    this.#noOutput = limits.noOutputMs === null ? null : child(deadlineStop("no-output-timeout"));
  }

  /** Aborted: somebody has asked for the end. The reason is a StopRequest. */
  get signal(): AbortSignal {
    return this.#root.signal;
  }

  /** The command runs; `elapsedMs` of the overall time were used up before (a run taken up again). */
  arm(elapsedMs = 0): void {
    if (this.#armed || this.#root.signal.aborted) return;
    this.#armed = true;
    if (this.#limits.overallMs !== null)
      this.#overall?.setDue(Math.max(0, this.#limits.overallMs - elapsedMs));
    this.recordProgress();
  }

  /** Those there are not, for an anchor that may still hold them. */
  get disabledLimits(): Partial<RunDeadlines> {
    const { overallMs, noOutputMs } = this.#limits;
    return { ...(overallMs === null ? { overallMs } : {}), ...(noOutputMs === null ? { noOutputMs } : {}) };
  }

  /** From here on only a cancel ends it. */
  disable(): void {
    this.#limits = NO_DEADLINES;
    this.#overall?.disarm();
    this.#noOutput?.disarm();
  }

  /** Output, or somebody's word that there is progress. */
  recordProgress(): void {
    if (this.#noOutput === null || !this.#armed || this.#root.signal.aborted) return;
    this.#noOutput.setDue(
      this.#withheld || this.#limits.noOutputMs === null ? Infinity : this.#limits.noOutputMs,
    );
  }

  /** While the anchor withholds reading, silence is ours, not the program's. */
  setWithheld(withheld: boolean): void {
    if (this.#withheld === withheld) return;
    this.#withheld = withheld;
    this.recordProgress();
  }

  /** False: somebody was faster. */
  requestStop(stop: StopRequest): boolean {
    if (this.#root.signal.aborted) return false;
    this.#root.abort(stop);
    this.#overall?.abort(stop);
    this.#noOutput?.abort(stop);
    this.#onStop(stop);
    return true;
  }

  dispose(): void {
    this.#armed = false;
    this.#overall?.disarm();
    this.#noOutput?.disarm();
  }
}
