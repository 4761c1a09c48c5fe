import { readTimeNamespace } from "../../async/host-clock.js";

let offsetNs: bigint | null = null;

/**
 * The store's clock: milliseconds of the initial time namespace's CLOCK_MONOTONIC, the same in every process of one
 * boot, whatever time namespace it lives in (suspend does not count). Compare two values
 * only when their boot ids are equal.
 */
export function hostMonotonicMs(): number {
  // A process stays in its time namespace.
  offsetNs ??= readTimeNamespace()?.monotonicOffsetNs ?? 0n;
  return Number((process.hrtime.bigint() - offsetNs) / 1_000_000n);
}
