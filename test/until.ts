import { setTimeout } from "node:timers/promises";

/** Looks until there is something to be seen. */
export async function until<T>(
  what: string,
  see: () => T | null | undefined | false,
  withinMs = 10_000,
): Promise<T> {
  const end = performance.now() + withinMs;
  for (;;) {
    const seen = see();
    if (seen !== null && seen !== undefined && seen !== false) return seen;
    if (performance.now() > end) throw new Error(`not within ${withinMs} ms: ${what}`);
    await setTimeout(10);
  }
}
