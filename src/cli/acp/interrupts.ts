import { deferred } from "../../supervisor/deferred.js";
import { interruptCode, type Interrupt } from "../foreground/interrupts.js";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Ctrl-C once asks for an end and waits for it, twice leaves. TERM and HUP count the same. */
export class Interrupts implements Disposable {
  readonly #insisted = deferred<void>();
  readonly #listeners = signals.map((signal) => [signal, (): void => this.receive(signal)] as const);
  #first: Interrupt | null = null;
  #act: () => void;

  constructor(act: () => void) {
    this.#act = act;
    for (const [signal, listener] of this.#listeners) process.on(signal, listener);
  }

  /** The exit code that goes with what was asked for first; null: nothing was. */
  get code(): number | null {
    return this.#first === null ? null : interruptCode(this.#first);
  }

  /** Resolves when the user insists on leaving. */
  get insisted(): Promise<void> {
    return this.#insisted.promise;
  }

  /** What the first does from here on; at once, if it has come. */
  from(act: () => void): void {
    this.#act = act;
    if (this.#first !== null) act();
  }

  receive(signal: Interrupt): void {
    if (this.#first !== null) return this.#insisted.resolve();
    this.#first = signal;
    this.#act();
  }

  [Symbol.dispose](): void {
    for (const [signal, listener] of this.#listeners) process.off(signal, listener);
  }
}
