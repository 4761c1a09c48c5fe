import { setTimeout } from "node:timers/promises";

const POLL_MS = 5;

/** For facts nobody announces (a file's size, a process's state). Throws when it stays untrue. */
export async function waitFor(
  what: string,
  holds: () => boolean | Promise<boolean>,
  withinMs = 15_000,
): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`);
    await setTimeout(POLL_MS);
  }
}

/** What `work` resolves with. Throws when that takes longer: the promise was about time, too. */
export async function withTimeout<T>(ms: number, what: string, work: Promise<T>): Promise<T> {
  const stop = new AbortController();
  const late = setTimeout(ms, null, { signal: stop.signal }).then(
    () => {
      throw new Error(`not within ${ms} ms: ${what}`);
    },
    () => new Promise<never>(() => {}),
  );
  try {
    return await Promise.race([work, late]);
  } finally {
    stop.abort();
  }
}

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
