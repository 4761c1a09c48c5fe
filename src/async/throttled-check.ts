/**
 * A check for work that another process may have left. While the check finds something or fails, every call makes it.
 * Otherwise the check rests, because on a shared store each check is a statement of every gateway.
 */
export class RestingCheck {
  readonly #restMs: number;
  readonly #find: () => Promise<boolean>;
  #restsUntil = -Infinity;
  #wakes = 0;

  /** `find` does the work that it finds, and resolves with true if it has to be called again soon. */
  constructor(restMs: number, find: () => Promise<boolean>) {
    this.#restMs = restMs;
    this.#find = find;
  }

  async run(): Promise<void> {
    if (performance.now() < this.#restsUntil) return;
    const wakes = this.#wakes;
    if (!(await this.#find()) && this.#wakes === wakes) this.#restsUntil = performance.now() + this.#restMs;
  }

  /** Makes the next call check again, because there may be something to find. */
  wake(): void {
    this.#wakes += 1;
    this.#restsUntil = -Infinity;
  }
}
