import { defaults } from "../../defaults.js";
import { runStateRank } from "../../store/runs/apply-change.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import type { SupervisorContext } from "../context.js";

const ROLLED_BACK = "the store has gone back in time, and was told again";

/**
 * The store knows less of a run than it was told: it was put back to a backup. A record of a later epoch is no such
 * thing, whoever owns it: somebody has taken the run over. Nor is an end: that is never taken back.
 */
export function isBehind(stored: RunRecord | null, copied: RunRecord): boolean {
  if (stored === null) return true;
  if (stored.state === "exited" || stored.leaseEpoch > copied.leaseEpoch) return false;
  if (stored.leaseEpoch < copied.leaseEpoch || runStateRank(stored) < runStateRank(copied)) return true;
  return countFacts(stored) < countFacts(copied);
}

/** Of those that come once and stay. */
function countFacts({ root, startedAt, service, hiddenAt }: RunRecord): number {
  return [root, startedAt, service, service?.readyAt ?? null, hiddenAt].filter((fact) => fact !== null)
    .length;
}

/** Tell the store again of a run of ours that it has forgotten, all or in part. False: it has not. */
export async function restoreIfRolledBack(context: SupervisorContext, runId: string): Promise<boolean> {
  const { store, localCopy, instanceId } = context;
  // The ledger first: what the store learns meanwhile is no sign that it has forgotten.
  const record = (await localCopy?.get(runId))?.record ?? null;
  if (record === null || record.ownerInstanceId !== instanceId) return false;
  if (!isBehind(await store.getRun(runId), record)) return false;
  return rewriteRecord(context, record, defaults.leaseMs);
}

/** False: somebody was faster. */
export async function rewriteRecord(
  context: SupervisorContext,
  record: RunRecord,
  leaseMs: number,
): Promise<boolean> {
  if (!(await context.store.restoreRun(record, leaseMs, restoreEvents(context, record)))) return false;
  const { runId } = record;
  context.report({ runId, message: `run ${runId}: ${ROLLED_BACK}`, cause: null });
  // One is never alone.
  context.storeMayHaveRolledBack = true;
  return true;
}

/** Its end was told once, in events that are gone. */
function restoreEvents({ clock, instanceId }: SupervisorContext, record: RunRecord): readonly NewRunEvent[] {
  const { runId, root, exit, emptiness, ownerInstanceId, leaseEpoch } = record;
  const facts = { runId, rootPid: root?.pid ?? null, descendants: 0 };
  const restored: NewRunEvent = {
    ...facts,
    at: clock.wall(),
    type: "reconcile",
    data: {
      row: "forgotten",
      action: "restore",
      why: ROLLED_BACK,
      by: instanceId,
      from: ownerInstanceId,
      epoch: leaseEpoch,
    },
  };
  if (exit === null || emptiness === null) return [restored];
  const { reason, actor, code, signal } = exit;
  const at = record.endedAt ?? clock.wall();
  return [restored, { ...facts, at, type: "exit", data: { reason, actor, code, signal, emptiness } }];
}
