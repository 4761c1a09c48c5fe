/**
 * A check for work that another process may have left. While the check finds something or fails, every call makes it.
 * Otherwise calls are throttled, because on a shared store each check is a statement of every gateway.
 */
export class ThrottledCheck {
  readonly #intervalMs: number;
  readonly #find: () => Promise<boolean>;
  #nextAt = -Infinity;
  #wakes = 0;

  /** `find` does the work that it finds, and resolves with true if it has to be called again soon. */
  constructor(intervalMs: number, find: () => Promise<boolean>) {
    this.#intervalMs = intervalMs;
    this.#find = find;
  }

  async run(): Promise<void> {
    if (performance.now() < this.#nextAt) return;
    const wakes = this.#wakes;
    if (!(await this.#find()) && this.#wakes === wakes) this.#nextAt = performance.now() + this.#intervalMs;
  }

  /** Makes the next call check again, because there may be something to find. */
  wake(): void {
    this.#wakes += 1;
    this.#nextAt = -Infinity;
  }
}
