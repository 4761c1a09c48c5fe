import { defaults } from "../defaults.js";
import type { Run, Supervisor } from "../supervisor/api.js";

/**
 * Who has called for a run in the foreground, and is there to take its output. A run whose caller has left for longer
 * than it takes to come back is cancelled: nobody would read on. Unless a service was made of it meanwhile.
 */
export class Callers implements Disposable {
  readonly #supervisor: Supervisor;
  readonly #present = new Map<string, () => void>();
  readonly #awaited = new Map<string, NodeJS.Timeout>();
  readonly #standIns = new Map<string, AbortController>();
  readonly #overtaken = new Set<string>();
  #closed = false;

  constructor(supervisor: Supervisor) {
    this.#supervisor = supervisor;
  }

  get present(): number {
    return this.#present.size;
  }

  has(runId: string): boolean {
    return this.#present.has(runId);
  }

  /** Somebody else types into the run of a caller that has left: should it come back, its place in the input is gone. */
  overtake(runId: string): void {
    this.#overtaken.add(runId);
  }

  overtaken(runId: string): boolean {
    return this.#overtaken.has(runId);
  }

  /** A new run's caller has been told of it, or has left before it could be. */
  expect(runId: string, gone: AbortSignal): void {
    if (gone.aborted) return this.#await(runId, 0, "caller (left)");
    this.#await(runId, defaults.callerReturnMs, "caller (never attached)");
  }

  /** Taken up from a former gateway: its caller is looking for this one. */
  expectBack(runId: string): void {
    if (!this.#present.has(runId) && !this.#awaited.has(runId))
      this.#await(runId, defaults.callerReturnMs, "caller (did not come back)");
  }

  /** The newest one counts: an older connection of the same caller is a dead one. Disposing says that it has left. */
  arrived(runId: string, dismiss: () => void): Disposable {
    this.#present.get(runId)?.();
    this.#present.set(runId, dismiss);
    this.#standIns.get(runId)?.abort();
    clearTimeout(this.#awaited.get(runId));
    this.#awaited.delete(runId);
    return {
      [Symbol.dispose]: () => {
        if (this.#present.get(runId) !== dismiss) return;
        this.#present.delete(runId);
        this.#await(runId, defaults.callerGraceMs, "caller (left)");
      },
    };
  }

  /** This gateway leaves: what its runs' callers do is for the next one to see. */
  [Symbol.dispose](): void {
    this.#closed = true;
    for (const timer of this.#awaited.values()) clearTimeout(timer);
    this.#awaited.clear();
    for (const standIn of this.#standIns.values()) standIn.abort();
  }

  /** A service was made of it, which its caller's leaving does not end; but it would wait for somebody to take its output. */
  async #standIn(run: Run): Promise<void> {
    const relieved = new AbortController();
    this.#standIns.set(run.runId, relieved);
    for await (const _ of run.follow({ ack: true, signal: relieved.signal }));
    this.#standIns.delete(run.runId);
  }

  #await(runId: string, ms: number, actor: string): void {
    if (this.#closed) return;
    const timer = setTimeout(() => {
      this.#awaited.delete(runId);
      const run = this.#supervisor.run(runId);
      // Not among the live ones: it has ended.
      if (run === null) return;
      const seenTo = run.service === null ? run.cancel({ actor }) : this.#standIn(run);
      void seenTo.catch(() => undefined);
    }, ms);
    this.#awaited.set(runId, timer);
  }
}
