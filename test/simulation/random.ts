/** Everything random of a schedule, from one seed (mulberry32): the same seed is the same schedule. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up, below 1. */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** From 0 up, below `end`. */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  between(first: number, last: number): number {
    return first + this.below(last - first + 1);
  }

  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<T>(from: readonly T[]): T {
    const at = this.below(from.length);
    if (at >= from.length) throw new Error("nothing to pick from");
    return from[at] as T;
  }

  maybePick<T>(from: readonly T[]): T | null {
    return from.length === 0 ? null : this.pick(from);
  }

  /** One of the names, each as often as its weight says. */
  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    let total = 0;
    for (const name in weights) total += weights[name];
    let left = this.fraction() * total;
    let last: Name | null = null;
    for (const name in weights) {
      last = name;
      left -= weights[name];
      if (left < 0) return name;
    }
    if (last === null) throw new Error("nothing to pick from");
    return last;
  }

  shuffle<T>(items: T[]): T[] {
    for (let at = items.length - 1; at > 0; at--) {
      const other = this.below(at + 1);
      [items[at], items[other]] = [items[other] as T, items[at] as T];
    }
    return items;
  }
}
