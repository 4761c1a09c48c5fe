import { setImmediate as nextTurn } from "node:timers/promises";

/** Callers that continue in one turn of the event loop: each writes an answer, and other connections need turns in between. */
const AT_ONCE = 50;

/**
 * Shared lookups: all callers that ask for the same key in one turn of the event loop share one lookup, which begins after
 * that turn. So a flood of requests costs one read per turn, and no caller gets a value from before its request.
 */
export class SharedLookups<Found> {
  readonly #lookUp: (key: string) => Promise<Found>;
  #asked = new Map<string, ((found: Promise<Found>) => void)[]>();

  constructor(lookUp: (key: string) => Promise<Found>) {
    this.#lookUp = lookUp;
  }

  find(key: string): Promise<Found> {
    if (this.#asked.size === 0) setImmediate(() => this.#begin());
    return new Promise((resolve) => {
      const waiting = this.#asked.get(key) ?? [];
      this.#asked.set(key, waiting);
      waiting.push(resolve);
    });
  }

  #begin(): void {
    const asked = this.#asked;
    this.#asked = new Map();
    for (const [key, waiting] of asked) void answer(this.#lookUp(key), waiting);
  }
}

async function answer<Found>(
  found: Promise<Found>,
  waiting: readonly ((found: Promise<Found>) => void)[],
): Promise<void> {
  for (const [at, settle] of waiting.entries()) {
    if (at > 0 && at % AT_ONCE === 0) await nextTurn();
    settle(found);
  }
}
