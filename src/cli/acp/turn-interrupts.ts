import { deferred } from "../../async/deferred.js";
import { type InterruptSignal, onInterruptSignals, interruptExitCode } from "../run/interrupt-signals.js";

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
