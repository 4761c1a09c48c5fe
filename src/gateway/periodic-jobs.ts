/** Work done again and again, each kind in its own rhythm, never twice at the same time. */
export class PeriodicJobs {
  readonly #onFailure: (message: string, cause: unknown) => void;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #running = new Set<Promise<void>>();
  #stopped = false;

  constructor(onFailure: (message: string, cause: unknown) => void) {
    this.#onFailure = onFailure;
  }

  /** Resolves after the first run of the job. A failed run is reported and retried at the next interval. Never rejects. */
  schedule(name: string, everyMs: number, job: () => Promise<void>): Promise<void> {
    const running = this.#runAndReschedule(name, everyMs, job);
    this.#running.add(running);
    void running.finally(() => this.#running.delete(running));
    return running;
  }

  async #runAndReschedule(name: string, everyMs: number, job: () => Promise<void>): Promise<void> {
    if (!this.#stopped) await this.#runOnce(name, job);
    if (this.#stopped) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      void this.schedule(name, everyMs, job);
    }, everyMs);
    this.#timers.add(timer);
  }

  /** Stops all jobs. Resolves when none runs. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all(this.#running);
  }

  async #runOnce(name: string, job: () => Promise<void>): Promise<void> {
    try {
      await job();
    } catch (cause) {
      if (!this.#stopped) this.#onFailure(`${name} failed; trying again`, cause);
    }
  }
}
