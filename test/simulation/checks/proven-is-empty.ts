import type { RunRecord } from "../../../src/model/run.js";
import type { RunTruth } from "../run-truth.js";

/** Invariant 2: an end recorded as proven means that no process of the run is alive; a supervised end is proven. */
export function provenIsEmpty(after: RunRecord, truth: RunTruth): string | null {
  if (after.state !== "exited") return null;
  const { reason } = after.exit ?? { reason: "none" };
  if (after.emptiness !== "proven")
    return reason === "lost" ? null : `ended as ${reason}, yet its emptiness is ${after.emptiness}`;
  const alive = truth.processes();
  if (alive.length === 0) return null;
  return `ended as ${reason}, proven to be empty, while ${alive.map(({ identity }) => identity.pid).join(", ")} lived`;
}
