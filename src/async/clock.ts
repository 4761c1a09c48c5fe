/**
 * Returns a random duration between half of `ms` and `ms`, so that clients of one server do not reconnect at the same
 * moment.
 */
export function jitter(ms: number): number {
  return ms * (0.5 + Math.random() / 2);
}

export interface Timer {
  cancel(): void;
}

/**
 * The time of one supervisor. Decisions use the monotonic clock; the wall clock is only shown. A simulation has its own
 * clock.
 */
export interface Clock {
  /** Monotonic milliseconds. The time of a suspend does not count. */
  now(): number;
  /** Wall-clock milliseconds. The wall clock can jump at any time, so no decision may depend on it. */
  wall(): number;
  /** Calls `call` once. The timer does not keep the process alive unless `keepAlive` is set. */
  setTimer(ms: number, call: () => void, options?: { readonly keepAlive: boolean }): Timer;
  /** Sleeps, or until `early` settles. Keeps the process alive, because the sleeping code still has a run to handle. */
  sleep(ms: number, early?: Promise<unknown>): Promise<void>;
  /** A random duration of at most `ms`; see `jitter`. */
  jitter(ms: number): number;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  wall: () => Date.now(),
  setTimer(ms, call, options) {
    const timer = setTimeout(call, ms);
    if (options?.keepAlive !== true) timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
  sleep: (ms, early) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      const stop = (): void => {
        clearTimeout(timer);
        resolve();
      };
      early?.then(stop, stop);
    }),
  jitter,
};
