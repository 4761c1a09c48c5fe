import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import type { TerminalRunChange, RunStore } from "../../store/runs/store.js";

/**
 * Ends the record of a run as lost and unproven, because an operator says that its host or state directory will not come
 * back. Nothing is signalled; if the host does come back, it stops the run. False: nothing was written, because the lease
 * has not expired or another supervisor has taken it.
 */
export async function forgetRun(
  store: Pick<RunStore, "acquireAndFinalizeRun">,
  record: RunRecord,
  actor: string,
  {
    detail = "it was abandoned by an operator; whether processes of it still run is not known",
    expiredForMs = 0,
  }: { readonly detail?: string; readonly expiredForMs?: number | null } = {},
): Promise<boolean> {
  const { runId, ownerInstanceId, leaseEpoch } = record;
  const at = Date.now();
  const claim = {
    runId,
    from: { ownerInstanceId, epoch: leaseEpoch },
    ownerInstanceId,
    epoch: leaseEpoch + 1,
    leaseMs: 0,
    expiredForMs,
  };
  const end: TerminalRunChange = {
    to: "exited",
    at,
    exit: {
      reason: "lost",
      actor,
      code: null,
      signal: null,
      source: "none",
      detail,
      errno: null,
      limitHit: null,
    },
    residue: [],
    residueCount: 0,
    usage: null,
    emptiness: "unproven",
  };
  const event: NewRunEvent = {
    runId,
    at,
    rootPid: record.root?.pid ?? null,
    descendants: 0,
    type: "exit",
    data: { reason: "lost", actor, code: null, signal: null, emptiness: "unproven" },
  };
  return store.acquireAndFinalizeRun(claim, end, [event]);
}
