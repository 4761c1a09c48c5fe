/** Work done again and again, each kind in its own rhythm, never twice at the same time. */
export class Rounds {
  readonly #failing: (message: string, cause: unknown) => void;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #going = new Set<Promise<void>>();
  #ended = false;

  constructor(failing: (message: string, cause: unknown) => void) {
    this.#failing = failing;
  }

  /** The first round is done when this resolves. A round that fails is reported, and tried again in its turn. Never rejects. */
  begin(what: string, everyMs: number, round: () => Promise<void>): Promise<void> {
    const going = this.#go(what, everyMs, round);
    this.#going.add(going);
    void going.finally(() => this.#going.delete(going));
    return going;
  }

  async #go(what: string, everyMs: number, round: () => Promise<void>): Promise<void> {
    if (!this.#ended) await this.#round(what, round);
    if (this.#ended) return;
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      void this.begin(what, everyMs, round);
    }, everyMs);
    this.#timers.add(timer);
  }

  /** No further round; resolves when none is under way. */
  async end(): Promise<void> {
    this.#ended = true;
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all(this.#going);
  }

  async #round(what: string, round: () => Promise<void>): Promise<void> {
    try {
      await round();
    } catch (cause) {
      if (!this.#ended) this.#failing(`${what} failed; trying again`, cause);
    }
  }
}
