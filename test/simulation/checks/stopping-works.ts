import type { SimulatedAnchor } from "../parts/anchor.js";
import type { RunTruth } from "../run-truth.js";
import type { HeldRun } from "../simulation-context.js";

/** Beyond the grace: what the kill and its repetition may take. */
const KILL_MS = 2_500;

/** Invariant 7: a stop that reached its anchor empties the tree within grace and kill time, whatever the store does. */
export function stopEmptiesTheTree(anchor: SimulatedAnchor, truth: RunTruth): string | null {
  if (truth.stoppedAt === null || anchor.gone || anchor.held) return null;
  const since = anchor.place.machine.monotonic - truth.stoppedAt;
  const left = anchor.members().filter(({ stuck }) => !stuck);
  if (left.length === 0 || since <= anchor.spec.policy.graceMs + KILL_MS) return null;
  return `${left.length} of its processes live ${since} ms after it was stopped`;
}

/** Invariant 7: a cancel ends the tree although its anchor is stopped. */
export function stopNeedsNoAnchor(
  { process, runId }: HeldRun,
  { anchor, forgotten, wasStuck }: RunTruth,
): string | null {
  if (forgotten || wasStuck || process.gone || process.held || anchor === null || !anchor.held) return null;
  if (process.supervisor.run(runId) === null) return null;
  const left = anchor.members();
  return left.length === 0
    ? null
    : `it was cancelled, and ${left.length} of its processes live below a stopped anchor`;
}

/** Invariant 7: a cancel reaches the anchor although the store refuses everything. */
export function cancelReachesAnchor(
  { process, runId }: HeldRun,
  { anchor, stoppedAt, forgotten }: RunTruth,
): string | null {
  // Who was asked let go of it when its record was gone, and found it again as another's.
  if (forgotten) return null;
  if (process.gone || anchor === null || anchor.gone || anchor.leaderDone || stoppedAt !== null) return null;
  // Let go of: robbed, or ended by somebody else on record. It is no longer this one's to stop.
  if (process.supervisor.run(runId) === null) return null;
  return `${process.name} was asked to cancel it, and its anchor has not heard of it`;
}
