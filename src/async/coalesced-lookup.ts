import { setImmediate as nextTurn } from "node:timers/promises";

/**
 * Callers that continue in one turn of the event loop. Each writes an answer, and other connections need turns in
 * between.
 */
const CALLERS_PER_TURN = 50;

/**
 * Shared lookups: all callers that ask for the same key in one turn of the event loop share one lookup, which begins after
 * that turn. So a flood of requests costs one read per turn, and no caller gets a value from before its request.
 */
export class CoalescedLookup<Found> {
  readonly #load: (key: string) => Promise<Found>;
  #callers = new Map<string, ((found: Promise<Found>) => void)[]>();

  constructor(lookUp: (key: string) => Promise<Found>) {
    this.#load = lookUp;
  }

  find(key: string): Promise<Found> {
    if (this.#callers.size === 0) setImmediate(() => this.#loadAll());
    return new Promise((resolve) => {
      const waiting = this.#callers.get(key) ?? [];
      this.#callers.set(key, waiting);
      waiting.push(resolve);
    });
  }

  #loadAll(): void {
    const asked = this.#callers;
    this.#callers = new Map();
    for (const [key, waiting] of asked) void settleCallers(this.#load(key), waiting);
  }
}

async function settleCallers<Found>(
  found: Promise<Found>,
  waiting: readonly ((found: Promise<Found>) => void)[],
): Promise<void> {
  for (const [at, settle] of waiting.entries()) {
    if (at > 0 && at % CALLERS_PER_TURN === 0) await nextTurn();
    settle(found);
  }
}
