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

/** Runs all of `work`, at most `limit` at a time. Results are in no particular order. */
export async function runConcurrently<T>(limit: number, work: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  const pending = work.values();
  const worker = async (): Promise<void> => {
    for (const each of pending) results.push(await each());
  };
  await Promise.all(Array.from({ length: Math.min(limit, work.length) }, worker));
  return results;
}
