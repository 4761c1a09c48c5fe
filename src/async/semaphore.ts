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
