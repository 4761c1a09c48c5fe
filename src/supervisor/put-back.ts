import { defaults } from "../defaults.js";
import { rankOf } from "../store/apply-change.js";
import type { NewRunEvent } from "../store/run-event.js";
import type { RunRecord } from "../store/run-record.js";
import type { Context } from "./context.js";

const WHY = "the store has gone back in time, and was told again";

/**
 * The store knows less of a run than it was told: it was put back to a backup. A record of a later epoch is no such
 * thing, whoever owns it: somebody has taken the run over. Nor is an end: that is never taken back.
 */
export function knowsLess(known: RunRecord | null, told: RunRecord): boolean {
  if (known === null) return true;
  if (known.state === "exited" || known.leaseEpoch > told.leaseEpoch) return false;
  if (known.leaseEpoch < told.leaseEpoch || rankOf(known) < rankOf(told)) return true;
  return factsIn(known) < factsIn(told);
}

/** Of those that come once and stay. */
function factsIn({ root, startedAt, service, hiddenAt }: RunRecord): number {
  return [root, startedAt, service, service?.readyAt ?? null, hiddenAt].filter((fact) => fact !== null)
    .length;
}

/** Tell the store again of a run of ours that it has forgotten, all or in part. False: it has not. */
export async function putBack(context: Context, runId: string): Promise<boolean> {
  const { store, ledger, instanceId } = context;
  // The ledger first: what the store learns meanwhile is no sign that it has forgotten.
  const record = (await ledger?.get(runId))?.record ?? null;
  if (record === null || record.ownerInstanceId !== instanceId) return false;
  if (!knowsLess(await store.getRun(runId), record)) return false;
  return tellAgain(context, record, defaults.leaseMs);
}

/** False: somebody was faster. */
export async function tellAgain(context: Context, record: RunRecord, leaseMs: number): Promise<boolean> {
  if (!(await context.store.restoreRun(record, leaseMs, eventsOf(context, record)))) return false;
  const { runId } = record;
  context.report({ runId, message: `run ${runId}: ${WHY}`, cause: null });
  // One is never alone.
  context.doubted = true;
  return true;
}

/** Its end was told once, in events that are gone. */
function eventsOf({ clock, instanceId }: Context, record: RunRecord): readonly NewRunEvent[] {
  const { runId, root, exit, emptiness, ownerInstanceId, leaseEpoch } = record;
  const facts = { runId, rootPid: root?.pid ?? null, descendants: 0 };
  const told: NewRunEvent = {
    ...facts,
    at: clock.wall(),
    type: "reconcile",
    data: {
      row: "forgotten",
      action: "restore",
      why: WHY,
      by: instanceId,
      from: ownerInstanceId,
      epoch: leaseEpoch,
    },
  };
  if (exit === null || emptiness === null) return [told];
  const { reason, actor, code, signal } = exit;
  const at = record.endedAt ?? clock.wall();
  return [told, { ...facts, at, type: "exit", data: { reason, actor, code, signal, emptiness } }];
}
