import { readFileSync, readlinkSync } from "node:fs";
import { StateUnusable } from "../errors.js";

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

/** See time_namespaces(7). Offsets are relative to the initial namespace, also in nested namespaces. */
interface TimeNamespace {
  /**
   * `time:[4026531834]`, followed by the offsets that are not 0, because the kernel reuses the numbers of namespaces.
   */
  readonly name: string;
  /** Offset of this namespace's CLOCK_MONOTONIC from that of the initial namespace. */
  readonly monotonicOffsetNs: bigint;
}

const NAMESPACE_LINK = "/proc/self/ns/time";
const OFFSETS_FILE = "/proc/self/timens_offsets";

/**
 * Reads the time namespace of this process. Null if the kernel has no time namespaces, so that there is only one clock.
 */
export function readTimeNamespace(): TimeNamespace | null {
  // Under Wine, /proc of the host is visible.
  if (process.platform !== "linux") return null;
  const link = readIfExists(() => readlinkSync(NAMESPACE_LINK), NAMESPACE_LINK);
  if (link === null) return null;
  // The file holds the offsets for children. They equal this process's own unless it has chosen another namespace for
  // its children.
  if (
    readIfExists(() => readlinkSync(`${NAMESPACE_LINK}_for_children`), `${NAMESPACE_LINK}_for_children`) !==
    link
  )
    throw new StateUnusable(
      NAMESPACE_LINK,
      "children of this process would be in another time namespace than the process; nothing was started. Enter the namespace before starting Holdfast, as `unshare --time --fork` does.",
    );
  const offsets = readIfExists(() => readFileSync(OFFSETS_FILE, "utf8"), OFFSETS_FILE) ?? "";
  const clocks = [...offsets.matchAll(/^(\w+)\s+(-?\d+)\s+(\d+)$/gm)].map(
    ([, clock = "", seconds = "0", nanoseconds = "0"]) => ({
      clock,
      offsetNs: BigInt(seconds) * 1_000_000_000n + BigInt(nanoseconds),
    }),
  );
  const shifted = clocks.filter(({ offsetNs }) => offsetNs !== 0n);
  return {
    name: [link, ...shifted.map(({ clock, offsetNs }) => `${clock}${signed(offsetNs)}ns`)].join(" "),
    monotonicOffsetNs: clocks.find(({ clock }) => clock === "monotonic")?.offsetNs ?? 0n,
  };
}

function signed(value: bigint): string {
  return value < 0n ? String(value) : `+${value}`;
}

function readIfExists(read: () => string, path: string): string | null {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw new StateUnusable(
      path,
      `${path} cannot be read, so valid leases of this host cannot be distinguished from expired ones; nothing was started.`,
      { cause: error },
    );
  }
}

let offsetNs: bigint | null = null;

/**
 * The store's clock: milliseconds of CLOCK_MONOTONIC in the initial time namespace, the same in every process of one
 * boot. The time of a suspend does not count. Two values can be compared only if their boot ids are equal.
 */
export function hostMonotonicMs(): number {
  // A process never changes its time namespace.
  offsetNs ??= readTimeNamespace()?.monotonicOffsetNs ?? 0n;
  return Number((process.hrtime.bigint() - offsetNs) / 1_000_000n);
}

/** A clock that continues over restarts of this process within one boot. Every agent ends with the boot. */
export const hostClock: Clock = { ...systemClock, now: hostMonotonicMs };

/** Returns an id larger than all ids returned before on this boot, at fewer than a thousand ids per millisecond. */
export function monotonicId(): number {
  return hostMonotonicMs() * 1_000;
}
