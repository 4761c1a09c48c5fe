import type { StopRequest } from "../../anchor/host-interface.js";
import type { Clock, Timer } from "../../async/clock.js";
import { NO_DEADLINES, type RunDeadlines } from "../../model/run.js";

/** Timers are 32-bit: a longer one fires at once, so a countdown sets several timers in a row. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * Calls back when the monotonic clock reaches the due time. A later due time does not touch the timer, which compares
 * the clock when it fires: so a postponement costs one assignment.
 */
class Countdown {
  readonly #clock: Clock;
  readonly #onDue: () => void;
  #dueAt = Infinity;
  #timer: Timer | null = null;

  constructor(clock: Clock, onDue: () => void) {
    this.#clock = clock;
    this.#onDue = onDue;
  }

  /** Infinity: never. */
  setDue(inMs: number): void {
    this.#dueAt = this.#clock.now() + inMs;
    if (this.#timer === null) this.#watch();
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
    if (left <= 0) return this.#onDue();
    this.#timer = this.#clock.setTimer(Math.min(Math.ceil(left), LONGEST_TIMER_MS), () => this.#watch());
  }
}

/**
 * Manual stop, overall deadline and no-output deadline of one run: the first of them sets the reason, the others are
 * ignored. The anchor has both deadlines too, and enforces them when no supervisor does.
 */
export class Deadlines {
  #limits: RunDeadlines;
  readonly #onStop: (stop: StopRequest) => void;
  readonly #overall: Countdown;
  readonly #noOutput: Countdown;
  #armed = false;
  #stopped = false;
  #withheld = false;

  constructor(clock: Clock, limits: RunDeadlines, onStop: (stop: StopRequest) => void) {
    this.#limits = limits;
    this.#onStop = onStop;
    const countdown = (reason: "overall-timeout" | "no-output-timeout"): Countdown =>
      new Countdown(
        clock,
        () => void this.requestStop({ reason, actor: "deadline", requestId: "", graceMs: null }),
      );
    this.#overall = countdown("overall-timeout");
    this.#noOutput = countdown("no-output-timeout");
  }

  /** Starts the deadlines. `elapsedMs`: how long the command has run already (after a reattach). */
  arm(elapsedMs = 0): void {
    if (this.#armed || this.#stopped) return;
    this.#armed = true;
    const { overallMs } = this.#limits;
    if (overallMs !== null) this.#overall.setDue(Math.max(0, overallMs - elapsedMs));
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
    this.#disarm();
  }

  /** Call on output, and when the caller reports progress. */
  recordProgress(): void {
    const { noOutputMs } = this.#limits;
    if (noOutputMs === null || !this.#armed || this.#stopped) return;
    this.#noOutput.setDue(this.#withheld ? Infinity : noOutputMs);
  }

  /** While the anchor does not read the output, the lack of output is not the program's. */
  setWithheld(withheld: boolean): void {
    if (this.#withheld === withheld) return;
    this.#withheld = withheld;
    this.recordProgress();
  }

  /** False: a stop was requested before. */
  requestStop(stop: StopRequest): boolean {
    if (this.#stopped) return false;
    this.#stopped = true;
    this.#disarm();
    this.#onStop(stop);
    return true;
  }

  dispose(): void {
    this.#armed = false;
    this.#disarm();
  }

  #disarm(): void {
    this.#overall.disarm();
    this.#noOutput.disarm();
  }
}
