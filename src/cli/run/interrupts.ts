import { constants } from "node:os";
import { deferred } from "../../async/deferred.js";
import { exitCodes } from "../print/exit-code.js";
import type { ForegroundRun } from "./stdio.js";

/** On Windows, Ctrl-C and Ctrl-Break are SIGINT and SIGBREAK, and SIGHUP means that the console window was closed. */
const INTERRUPT_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"] as const;
export type InterruptSignal = (typeof INTERRUPT_SIGNALS)[number];

/** Until it is disposed, these signals call the listener instead of ending this process. */
export function onInterruptSignals(listener: (signal: InterruptSignal) => void): Disposable {
  const onSignal = listener as NodeJS.SignalsListener;
  const signals = INTERRUPT_SIGNALS.filter((signal) => signal in constants.signals);
  for (const signal of signals) process.on(signal, onSignal);
  return {
    [Symbol.dispose]() {
      for (const signal of signals) process.off(signal, onSignal);
    },
  };
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

  constructor(actor: string, notice: (message: string) => void) {
    this.#actor = actor;
    this.#notice = notice;
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

/** As shells report a command that was ended by this signal. */
export function interruptExitCode(signal: InterruptSignal): number {
  return exitCodes.signal + constants.signals[signal];
}

/** STATUS_CONTROL_C_EXIT: the exit code of a Windows process that a console signal ended. */
const CONTROL_C_EXIT = 0xc000013a;

/** Ends this process as if the signal were not handled. */
export function dieBySignal(signal: InterruptSignal): void {
  if (process.platform === "win32") process.exit(CONTROL_C_EXIT);
  process.removeAllListeners(signal);
  // oxlint-disable-next-line no-restricted-properties -- the only target is this process
  process.kill(process.pid, signal);
}

/** The first Ctrl-C cancels the turn and waits for its end, the second leaves. TERM and HUP count the same. */
export class TurnInterrupts implements Disposable {
  readonly #signals = onInterruptSignals((signal) => this.receive(signal));
  readonly #leaveRequested = deferred<void>();
  #first: InterruptSignal | null = null;
  #onFirst: () => void;
  /** Resolves when the user wants to leave. */
  readonly leaveRequested = this.#leaveRequested.promise;

  constructor(act: () => void) {
    this.#onFirst = act;
  }

  /** The exit code for the first signal; null: there was none. */
  get exitCode(): number | null {
    return this.#first === null ? null : interruptExitCode(this.#first);
  }

  /** Sets the action of the first interrupt; called at once if the interrupt has come. */
  onFirst(act: () => void): void {
    this.#onFirst = act;
    if (this.#first !== null) act();
  }

  receive(signal: InterruptSignal): void {
    if (this.#first !== null) return this.#leaveRequested.resolve();
    this.#first = signal;
    this.#onFirst();
  }

  [Symbol.dispose](): void {
    this.#signals[Symbol.dispose]();
  }
}
