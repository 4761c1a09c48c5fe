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
