import { LeaseLost } from "../../errors.js";
import { isTakenByOtherIncarnation } from "../lease/acquire.js";
import { restoreIfRolledBack } from "../lease/restore-record.js";
import { isInactive, type LiveRun } from "../run/live-run.js";
import { detachRun } from "../run/stop-and-detach.js";

/** The store has no lease of ours for the run: the store was rolled back, or the run was taken over or ended. */
export async function onLeaseMissing(live: LiveRun): Promise<void> {
  const { context, facts } = live;
  if (await restoreIfRolledBack(context, facts.runId)) return;
  const record = await context.store.getRun(facts.runId);
  if (record === null || record.state === "exited") onLeaseStolen(live, null);
  else if (record.ownerInstanceId !== context.instanceId) onLeaseStolen(live, record.ownerInstanceId);
}

/** Finds out whether a newer epoch means that this process lost one run or the whole instance. */
export async function detectOtherIncarnation({ context, facts }: LiveRun, hadEpoch: number): Promise<void> {
  const record = await context.store.getRun(facts.runId);
  if (record !== null && (await isTakenByOtherIncarnation(context, record, hadEpoch)))
    context.incarnation.markTaken(`it acquired run ${facts.runId} under a newer epoch`);
}

/** Another supervisor owns the run: reports that and detaches. */
export function onLeaseStolen(live: LiveRun, by: string | null): void {
  if (isInactive(live)) return;
  if (by === live.context.instanceId)
    return live.context.incarnation.markTaken(`it acquired run ${live.facts.runId} under a newer epoch`);
  const error = new LeaseLost(live.facts.runId, live.writeQueue.lease.epoch, by);
  live.context.report({ runId: live.facts.runId, message: error.message, cause: error });
  detachRun(live, error);
}
