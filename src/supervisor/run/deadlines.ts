import type { StopRequest } from "../../anchor/host.js";
import { NO_DEADLINES, type RunDeadlines } from "../../model/run.js";
import type { Clock, Timer } from "../../async/clock.js";

/** Timers are 32-bit: a longer one fires at once, so a countdown sets several timers in a row. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Aborts when the monotonic clock reaches the due time. A later due time does not touch the timer, which compares the
 * clock when it fires: so a postponement costs one assignment.
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

  /** Infinity: never. */
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
 * Manual stop, overall deadline and no-output deadline of one run: the first of them sets the reason, the others are
 * ignored. The anchor has both deadlines too, and enforces them when no supervisor does.
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

  /** Aborted: a stop was requested. The reason is a StopRequest. */
  get signal(): AbortSignal {
    return this.#root.signal;
  }

  /** Starts the deadlines. `elapsedMs`: how long the command has run already (after a reattach). */
  arm(elapsedMs = 0): void {
    if (this.#armed || this.#root.signal.aborted) return;
    this.#armed = true;
    if (this.#limits.overallMs !== null)
      this.#overall?.setDue(Math.max(0, this.#limits.overallMs - elapsedMs));
    this.recordProgress();
  }

  /** The deadlines that are off, for an anchor that may still have them. */
  get disabledLimits(): Partial<RunDeadlines> {
    const { overallMs, noOutputMs } = this.#limits;
    return { ...(overallMs === null ? { overallMs } : {}), ...(noOutputMs === null ? { noOutputMs } : {}) };
  }

  /** Switches both deadlines off. */
  disable(): void {
    this.#limits = NO_DEADLINES;
    this.#overall?.disarm();
    this.#noOutput?.disarm();
  }

  /** Call on output, and when the caller vouches for progress. */
  recordProgress(): void {
    if (this.#noOutput === null || !this.#armed || this.#root.signal.aborted) return;
    this.#noOutput.setDue(
      this.#withheld || this.#limits.noOutputMs === null ? Infinity : this.#limits.noOutputMs,
    );
  }

  /** While the anchor does not read the output, the lack of output is not the program's. */
  setWithheld(withheld: boolean): void {
    if (this.#withheld === withheld) return;
    this.#withheld = withheld;
    this.recordProgress();
  }

  /** False: a stop was requested before. */
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
