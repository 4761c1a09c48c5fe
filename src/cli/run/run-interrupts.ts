import { deferred } from "../../async/deferred.js";
import type { ForegroundRun } from "./stdio.js";
import { type InterruptSignal, interruptSignalOf, onInterruptSignals } from "./interrupt-signals.js";

export interface InterruptsBefore {
  /** The signal number of the first interrupt. */
  readonly first: number;
  readonly count: number;
}

/**
 * The first Ctrl-C stops the run, the second kills it, the third leaves it to its anchor. TERM and HUP count the same.
 * An interrupt before the run has started is applied when it has. A run that became a service continues: the first
 * interrupt leaves it.
 */
export class RunInterrupts implements Disposable {
  readonly #actor: string;
  readonly #notice: (message: string) => void;
  readonly #signals = onInterruptSignals((signal) => this.#receive(signal));
  readonly #firstInterrupt = deferred<void>();
  readonly #leaveRequested = deferred<void>();
  #run: ForegroundRun | null = null;
  #count = 0;
  /** The first signal, which decides the exit code; null: none. */
  firstSignal: InterruptSignal | null = null;
  /** Resolves at the first interrupt. */
  readonly firstInterrupt = this.#firstInterrupt.promise;
  /** Resolves when the user wants to leave. */
  readonly leaveRequested = this.#leaveRequested.promise;

  /** `before`: the interrupts that another process has received for the same run. */
  constructor(actor: string, notice: (message: string) => void, before: InterruptsBefore | null = null) {
    this.#actor = actor;
    this.#notice = notice;
    if (before === null || before.count === 0) return;
    this.firstSignal = interruptSignalOf(before.first);
    this.#count = before.count;
    this.#firstInterrupt.resolve();
  }

  attach(run: ForegroundRun): void {
    this.#run = run;
    for (let past = 1; past <= this.#count; past += 1) this.#apply(past);
  }

  #receive(signal: InterruptSignal): void {
    this.firstSignal ??= signal;
    this.#count += 1;
    this.#firstInterrupt.resolve();
    if (this.#run !== null && this.#run.service !== null) return this.#leaveRequested.resolve();
    if (this.#count === 1)
      this.#notice(
        signal === "SIGINT" || signal === "SIGBREAK" ? "stopping… press Ctrl-C again to kill" : "stopping…",
      );
    if (this.#count === 2) this.#notice("killing…");
    this.#apply(this.#count);
  }

  #apply(count: number): void {
    if (count > 2) return this.#leaveRequested.resolve();
    this.#run
      ?.cancel({ actor: this.#actor, ...(count === 2 ? { graceMs: 0 } : {}) })
      .catch((error: unknown) => this.#notice((error as Error).message));
  }

  [Symbol.dispose](): void {
    this.#signals[Symbol.dispose]();
  }
}
