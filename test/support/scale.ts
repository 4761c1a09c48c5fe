import { availableParallelism, loadavg } from "node:os";

const STEPS = 10_000_000;
/** Time of these steps on a quiet machine. */
const QUIET_MS = 20;

/**
 * How much slower than usual this machine is now: 1 when it is not. A loop finds a slow processor; the load finds
 * programs that wait for one, as the processes under test do.
 */
export function measureSlowness(): number {
  const started = performance.now();
  let state = 1;
  for (let step = 0; step < STEPS; step++) state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
  const elapsedMs = state === 0 ? 0 : performance.now() - started;
  const [load = 0] = loadavg();
  return Math.max(1, elapsedMs / QUIET_MS, load / availableParallelism());
}

/** A limit that means the same on a slow machine. */
export function scaled(ms: number): number {
  return Math.ceil(ms * measureSlowness());
}

/** `npm run test:soak` repeats the same tests many more times. */
export const soak = process.env["HOLDFAST_SOAK"] === "1";

export function repetitions(ordinarily: number, inSoak: number): number {
  return soak ? inSoak : ordinarily;
}
