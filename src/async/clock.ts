/** A pause of at most so long and at least half of it: those who lost the same server must not come back in step. */
export function jitter(ms: number): number {
  return ms * (0.5 + Math.random() / 2);
}

export interface Timer {
  cancel(): void;
}

/** Time as one supervisor sees it: monotonic for every decision, the wall's only to be shown. A simulation has its own. */
export interface Clock {
  /** Milliseconds; suspend does not count. */
  now(): number;
  /** Wall-clock milliseconds. Anybody may set it at any time: nothing may depend on it. */
  wall(): number;
  /** Once. No reason for the process to stay, unless told so. */
  setTimer(ms: number, call: () => void, options?: { readonly keepAlive: boolean }): Timer;
  /** Over at once when `early` settles. Keeps the process alive: whoever pauses still has a run to see to. */
  sleep(ms: number, early?: Promise<unknown>): Promise<void>;
  /** A pause like this, but not in step with others'. */
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
