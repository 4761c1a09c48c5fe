import { setImmediate as nextTurn } from "node:timers/promises";

/** Callers that go on in one turn of the event loop: each has an answer to write, and others want to be heard in between. */
const AT_ONCE = 50;

/**
 * Lookups that are shared: everything that was asked about the same key in one turn of the event loop is answered by one
 * lookup, which begins afterwards. So a flood of requests costs one read per turn, and none is answered with what was
 * true before it came.
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
