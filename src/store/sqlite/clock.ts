/**
 * The store's clock: the host's monotonic milliseconds, the same in every process of one boot
 * (CLOCK_MONOTONIC on Linux: suspend does not count). A value means nothing in another boot;
 * whoever compares two must know that their boot ids are equal.
 */
export function hostMonotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}
