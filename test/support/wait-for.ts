import { setTimeout } from "node:timers/promises";
import { measureSlowness } from "./scale.js";

const FIRST_POLL_MS = 2;
const LAST_POLL_MS = 50;

type See<T> = () => T | Promise<T>;
type Seen<T> = Exclude<T, false | null | undefined>;

/**
 * Polls a fact that no event announces (a file's size, a process's state), and resolves with it. Throws if it does not
 * hold in time; a machine slower than usual has more time.
 */
export function waitFor<T>(see: See<T>, withinMs?: number): Promise<Seen<T>>;
export function waitFor<T>(what: string, see: See<T>, withinMs?: number): Promise<Seen<T>>;
export async function waitFor<T>(
  ...given: readonly [string | See<T>, (See<T> | number)?, number?]
): Promise<Seen<T>> {
  const [what, see, withinMs = 15_000] = (
    typeof given[0] === "string" ? given : [String(given[0]), ...given]
  ) as [string, See<T>, number?];
  const started = performance.now();
  let allowedMs = withinMs;
  for (let pauseMs = FIRST_POLL_MS; ; pauseMs = Math.min(pauseMs * 1.5, LAST_POLL_MS)) {
    const seen = await see();
    if (seen !== false && seen !== null && seen !== undefined) return seen as Seen<T>;
    if (performance.now() - started > allowedMs) {
      allowedMs = Math.max(allowedMs, withinMs * measureSlowness());
      if (performance.now() - started > allowedMs) throw lateError(allowedMs, what);
    }
    await setTimeout(pauseMs);
  }
}

/** Resolves as `work` does. Throws if that takes longer; a machine slower than usual has more time. */
export async function withTimeout<T>(ms: number, what: string, work: Promise<T>): Promise<T> {
  const stop = new AbortController();
  const expire = async (): Promise<never> => {
    await setTimeout(ms, null, { signal: stop.signal });
    const allowedMs = ms * measureSlowness();
    await setTimeout(allowedMs - ms, null, { signal: stop.signal });
    throw lateError(allowedMs, what);
  };
  try {
    return await Promise.race([work, expire()]);
  } finally {
    stop.abort();
  }
}

function lateError(allowedMs: number, what: string): Error {
  return new Error(`not within ${Math.round(allowedMs)} ms: ${what}`);
}
