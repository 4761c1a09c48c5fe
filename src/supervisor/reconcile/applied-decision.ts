import type { Decision } from "../decision.js";
import type { RunRecord } from "../../model/run.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { LiveRun, SupervisorContext } from "../run/live-run.js";

/** The result of a decision. */
export interface AppliedDecision {
  /** The acquired run; null: there is none. */
  readonly live: LiveRun | null;
  /** Why nothing was done; null: the decision was carried out. */
  readonly leftReason: string | null;
}

export const DONE: AppliedDecision = { live: null, leftReason: null };

export function leftAlone(why: string): AppliedDecision {
  return { live: null, leftReason: why };
}

export function takenOverBy(by: string | null): AppliedDecision {
  return leftAlone(`another supervisor${by === null ? "" : ` (${by})`} took it over first`);
}

export function reconcileEvent(
  { instanceId, clock }: Pick<SupervisorContext, "instanceId" | "clock">,
  record: RunRecord,
  { row, action, why }: Decision,
  epoch: number,
  process?: string,
): NewRunEvent {
  return {
    runId: record.runId,
    at: clock.wall(),
    rootPid: record.root?.pid ?? null,
    descendants: 0,
    type: "reconcile",
    data: {
      row,
      action,
      why,
      by: instanceId,
      from: record.ownerInstanceId,
      epoch,
      ...(process === undefined ? {} : { process }),
    },
  };
}
