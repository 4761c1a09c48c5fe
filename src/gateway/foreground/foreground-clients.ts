import { defaults } from "../../defaults.js";
import type { Run, Supervisor } from "../../supervisor/api.js";

/**
 * The callers of foreground runs. A run is cancelled when its caller stays disconnected longer than a reconnect takes,
 * unless the run became a service meanwhile.
 */
export class ForegroundClients implements Disposable {
  readonly #supervisor: Supervisor;
  readonly #attached = new Map<string, () => void>();
  readonly #timers = new Map<string, NodeJS.Timeout>();
  readonly #drains = new Map<string, AbortController>();
  readonly #inputTaken = new Set<string>();
  #closed = false;

  constructor(supervisor: Supervisor) {
    this.#supervisor = supervisor;
  }

  get attachedCount(): number {
    return this.#attached.size;
  }

  isAttached(runId: string): boolean {
    return this.#attached.has(runId);
  }

  /** Another client writes to the input of a run whose caller is disconnected; the caller's input offset is then lost. */
  markInputTaken(runId: string): void {
    this.#inputTaken.add(runId);
  }

  isInputTaken(runId: string): boolean {
    return this.#inputTaken.has(runId);
  }

  /** Called when the caller of a new run got the response, or disconnected before. */
  awaitFirstAttach(runId: string, disconnected: AbortSignal): void {
    if (disconnected.aborted) return this.#cancelAfter(runId, 0, "caller (left)");
    this.#cancelAfter(runId, defaults.callerReturnMs, "caller (never attached)");
  }

  /** A run acquired from a former gateway, whose caller will reconnect. */
  awaitReattach(runId: string): void {
    if (!this.#attached.has(runId) && !this.#timers.has(runId))
      this.#cancelAfter(runId, defaults.callerReturnMs, "caller (did not come back)");
  }

  /** Registers the caller's newest connection; older ones are dead. Disposing means that the caller disconnected. */
  attached(runId: string, dismiss: () => void): Disposable {
    this.#attached.get(runId)?.();
    this.#attached.set(runId, dismiss);
    this.#drains.get(runId)?.abort();
    clearTimeout(this.#timers.get(runId));
    this.#timers.delete(runId);
    return {
      [Symbol.dispose]: () => {
        if (this.#attached.get(runId) !== dismiss) return;
        this.#attached.delete(runId);
        this.#cancelAfter(runId, defaults.callerGraceMs, "caller (left)");
      },
    };
  }

  /** The gateway stops: the next gateway watches the callers. */
  [Symbol.dispose](): void {
    this.#closed = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    for (const drain of this.#drains.values()) drain.abort();
  }

  /** The run became a service: it no longer ends with its caller, and its output no longer waits for a reader. */
  async #drainOutput(run: Run): Promise<void> {
    const reattached = new AbortController();
    this.#drains.set(run.runId, reattached);
    const buffer = new Uint8Array(defaults.followBytes);
    for await (const _ of run.follow({ ack: true, buffer, signal: reattached.signal }));
    this.#drains.delete(run.runId);
  }

  #cancelAfter(runId: string, ms: number, actor: string): void {
    if (this.#closed) return;
    const timer = setTimeout(() => {
      this.#timers.delete(runId);
      const run = this.#supervisor.run(runId);
      // Null: the run has ended. The anchor watches a caller that is connected to it.
      if (run === null || run.hasCaller) return;
      const done = run.service === null ? run.cancel({ actor }) : this.#drainOutput(run);
      void done.catch(() => undefined);
    }, ms);
    this.#timers.set(runId, timer);
  }
}
