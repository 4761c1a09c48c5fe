import { setImmediate as nextTurn } from "node:timers/promises";

/**
 * Callers that continue in one turn of the event loop. Each writes an answer, and other connections need turns in
 * between.
 */
const CALLERS_PER_TURN = 50;

/**
 * Shared lookups: all callers that request the same key in one turn of the event loop share one lookup, which begins after
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

/** One operation at a time. All calls during an operation share the next, which begins after each of them. */
export class SharedOperation<Result> {
  readonly #operation: () => Promise<Result>;
  #running: Promise<Result> | null = null;
  #next: Promise<Result> | null = null;

  constructor(operation: () => Promise<Result>) {
    this.#operation = operation;
  }

  run(): Promise<Result> {
    if (this.#next !== null) return this.#next;
    if (this.#running === null) return this.#begin();
    const begin = (): Promise<Result> => this.#begin();
    this.#next = this.#running.then(begin, begin);
    return this.#next;
  }

  #begin(): Promise<Result> {
    this.#next = null;
    this.#running = this.#operation().finally(() => {
      this.#running = null;
    });
    return this.#running;
  }
}

/** Limits the number of concurrent operations. Further operations wait in order. */
export class Semaphore {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(width: number) {
    this.#free = width;
  }

  async run<T>(operation: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((enter) => this.#waiting.push(enter));
    try {
      return await operation();
    } finally {
      const next = this.#waiting.shift();
      // The slot goes directly to the first waiting operation, so that a new one cannot overtake it.
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

/**
 * Runs all of `work`, at most `limit` at a time. Results are in no particular order. After a failure nothing more is
 * started, and it rejects when what was started has ended.
 */
export async function runConcurrently<T>(limit: number, work: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  const failures: unknown[] = [];
  const pending = work.values();
  const worker = async (): Promise<void> => {
    for (const each of pending)
      try {
        results.push(await each());
        if (failures.length > 0) return;
      } catch (error) {
        failures.push(error);
        return;
      }
  };
  await Promise.all(Array.from({ length: Math.min(limit, work.length) }, worker));
  if (failures.length > 0) throw failures[0];
  return results;
}

/** Runs operations one at a time, in the order they were added. A failed operation does not stop the next. */
export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(operation: () => T | Promise<T>): Promise<T> {
    const result = this.#last.then(operation);
    this.#last = result.catch(() => undefined);
    return result;
  }

  /** Resolves when all operations added so far have ended. */
  idle(): Promise<unknown> {
    return this.#last;
  }
}
