import type { Clock } from "../async/clock.js";
import type { NewRunEvent } from "../model/run-event.js";
import type { RunRecord } from "../model/run.js";

/** The case of a record. The order is that of `decide`. */
export type Row =
  | "healthy"
  | "elsewhere"
  | "exit-file"
  | "other-boot"
  | "stalled"
  | "imported"
  | "anchor-alive"
  | "never-executed"
  | "unseen"
  | "root-alive"
  | "detached-orphaned"
  | "swept"
  | "unverifiable";
export type Action =
  /** Do nothing. */
  | "leave"
  /** Write the terminal record by the anchor's exit file. */
  | "finalize"
  /** Write the terminal record of a command that never ran. */
  | "spawn-error"
  /** Attach to the anchor under a new epoch. */
  | "continue"
  /** The same for a run of a dead owner. */
  | "adopt"
  /** Take the run over from a dead owner and stop it. */
  | "terminate"
  /** The anchor is dead: kill the verified processes, then `lose`. */
  | "sweep"
  /** Write the terminal record as lost, without a signal. */
  | "lose";
export interface Decision {
  readonly row: Row;
  readonly action: Action;
  /** The reason, as one clause for the operator. */
  readonly why: string;
}

export interface Decided extends Decision {
  readonly runId: string;
}

/** `process`: the incarnation that acquired the run. */
export function reconcileEvent(
  { instanceId, clock }: { readonly instanceId: string; readonly clock: Clock },
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
