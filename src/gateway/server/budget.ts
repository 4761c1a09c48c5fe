/** So many requests a second from each, and a burst before that counts. */
export class RateLimiter {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #buckets = new Map<string, { tokens: number; at: number }>();

  constructor(perSecond: number, burst: number) {
    this.#perSecond = perSecond;
    this.#burst = burst;
  }

  tryTake(who: string, now = performance.now()): boolean {
    const known = this.#buckets.get(who) ?? { tokens: this.#burst, at: now };
    const tokens = Math.min(this.#burst, known.tokens + ((now - known.at) / 1000) * this.#perSecond);
    this.#buckets.set(who, { tokens: Math.max(0, tokens - 1), at: now });
    // Whoever has not asked for a while has a full purse again, and need not be remembered.
    if (this.#buckets.size > 1_000) this.#evictFull(now);
    return tokens >= 1;
  }

  #evictFull(now: number): void {
    const fullAfterMs = (this.#burst / this.#perSecond) * 1000;
    for (const [who, { at }] of this.#buckets) if (now - at > fullAfterMs) this.#buckets.delete(who);
  }
}
