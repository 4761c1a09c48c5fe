import { constants } from "node:os";
import { deferred } from "../../supervisor/deferred.js";
import { exitCodes } from "../exit-code.js";
import type { ForegroundRun } from "./host.js";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
export type Interrupt = (typeof signals)[number];

/**
 * Ctrl-C once cancels, twice kills, three times leaves the run to its anchor. TERM and HUP count the same.
 * One that comes before there is a run is owed to it. A run of which a service was made meanwhile goes on: the first
 * only leaves it.
 */
export class Interrupts implements Disposable {
  readonly #actor: string;
  readonly #say: (message: string) => void;
  readonly #listeners = new Map<Interrupt, () => void>();
  readonly #requested = deferred<void>();
  readonly #insisted = deferred<void>();
  #run: ForegroundRun | null = null;
  #count = 0;
  #first: Interrupt | null = null;

  constructor(actor: string, say: (message: string) => void) {
    this.#actor = actor;
    this.#say = say;
    for (const signal of signals) {
      const listener = (): void => this.#receive(signal);
      this.#listeners.set(signal, listener);
      process.on(signal, listener);
    }
  }

  /** What the user asked for first, if anything: it decides the exit code. */
  get first(): Interrupt | null {
    return this.#first;
  }

  /** Resolves at the first interrupt. */
  get requested(): Promise<void> {
    return this.#requested.promise;
  }

  /** Resolves when the user insists on leaving. */
  get insisted(): Promise<void> {
    return this.#insisted.promise;
  }

  attach(run: ForegroundRun): void {
    this.#run = run;
    for (let past = 1; past <= this.#count; past += 1) this.#act(past);
  }

  #receive(signal: Interrupt): void {
    this.#first ??= signal;
    this.#count += 1;
    this.#requested.resolve();
    if (this.#run !== null && this.#run.service !== null) return this.#insisted.resolve();
    if (this.#count === 1)
      this.#say(signal === "SIGINT" ? "cancelling… press Ctrl-C again to kill" : "cancelling…");
    if (this.#count === 2) this.#say("killing…");
    this.#act(this.#count);
  }

  #act(count: number): void {
    if (count > 2) return this.#insisted.resolve();
    this.#run
      ?.cancel({ actor: this.#actor, ...(count === 2 ? { graceMs: 0 } : {}) })
      .catch((error: unknown) => this.#say((error as Error).message));
  }

  [Symbol.dispose](): void {
    for (const [signal, listener] of this.#listeners) process.off(signal, listener);
  }
}

/** As shells report a command that ended by this signal. */
export function interruptCode(signal: Interrupt): number {
  return exitCodes.signal + constants.signals[signal];
}

/** End at once, as if the signal had never been caught. */
export function dieOf(signal: Interrupt): void {
  process.removeAllListeners(signal);
  // oxlint-disable-next-line no-restricted-properties -- this is ourselves, and nobody else
  process.kill(process.pid, signal);
}
