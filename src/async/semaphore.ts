/** Lets a limited number of operations be under way; the others wait, in order. */
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
      // Handed over rather than freed: nobody who comes meanwhile gets in before those who wait.
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}

/** Do all of it, at most `limit` at a time. Results are in no particular order. */
export async function runConcurrently<T>(limit: number, work: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  const pending = work.values();
  const worker = async (): Promise<void> => {
    for (const each of pending) results.push(await each());
  };
  await Promise.all(Array.from({ length: Math.min(limit, work.length) }, worker));
  return results;
}
