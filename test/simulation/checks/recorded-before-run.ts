import type { RunRecord } from "../../../src/model/run.js";
import type { SimulatedAnchor } from "../parts/anchor.js";

/** Invariant 3: nothing of the command runs before its process is on record. */
export function recordedBeforeRun(anchor: SimulatedAnchor, record: RunRecord | null): string | null {
  if (record === null) return "its command ran without a record";
  if (record.root === null) return "its command ran before its process was on record";
  const { pid, startTime, uniqueId } = anchor.root.identity;
  const same =
    record.root.pid === pid && record.root.startTime === startTime && record.root.uniqueId === uniqueId;
  return same ? null : "its command ran as another process than the record says";
}
