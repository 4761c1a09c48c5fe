import type { Clock, Timer } from "../../async/clock.js";

/** The timers of requests that expire, by their ids. */
export class ExpiryTimers {
  readonly #clock: Clock;
  readonly #timers = new Map<string, Timer>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  start(id: string, expiresAt: number, expire: () => void): void {
    const ms = Math.max(0, expiresAt - this.#clock.wall());
    this.#timers.set(id, this.#clock.setTimer(ms, expire));
  }

  clear(id: string): void {
    this.#timers.get(id)?.cancel();
    this.#timers.delete(id);
  }

  clearAll(): void {
    for (const id of this.#timers.keys()) this.clear(id);
  }
}
