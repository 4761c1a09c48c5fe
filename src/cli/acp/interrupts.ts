import { deferred } from "../../async/deferred.js";
import { interruptExitCode, type InterruptSignal } from "../run/interrupts.js";

const TURN_SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Ctrl-C once asks for an end and waits for it, twice leaves. TERM and HUP count the same. */
export class TurnInterrupts implements Disposable {
  readonly #leaveRequested = deferred<void>();
  readonly #listeners = TURN_SIGNALS.map((signal) => [signal, (): void => this.receive(signal)] as const);
  #first: InterruptSignal | null = null;
  #onFirst: () => void;

  constructor(act: () => void) {
    this.#onFirst = act;
    for (const [signal, listener] of this.#listeners) process.on(signal, listener);
  }

  /** The exit code that goes with what was asked for first; null: nothing was. */
  get exitCode(): number | null {
    return this.#first === null ? null : interruptExitCode(this.#first);
  }

  /** Resolves when the user insists on leaving. */
  get leaveRequested(): Promise<void> {
    return this.#leaveRequested.promise;
  }

  /** What the first does from here on; at once, if it has come. */
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
    for (const [signal, listener] of this.#listeners) process.off(signal, listener);
  }
}
