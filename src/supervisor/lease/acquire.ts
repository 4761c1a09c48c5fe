import type { AnchorLink, RunAddress } from "../../anchor/host.js";
import { defaults } from "../../defaults.js";
import { StaleEpoch } from "../../errors.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import type { Lease } from "../../store/runs/store.js";
import type { SupervisorContext } from "../run/live-run.js";
import { attachKeepalive } from "./keepalive-links.js";
import { restoreIfRolledBack } from "./restore-record.js";

/** What the record says, or said, of its owner. */
export type LeaseHolder = Omit<Lease, "runId">;

export interface AcquireRequest {
  readonly run: RunAddress;
  readonly from: LeaseHolder;
  readonly expiredForMs: number | null;
  /** Committed with the lease, before anything is done. They name this process: its claims are told from others' by that. */
  readonly events: (epoch: number) => readonly NewRunEvent[];
}

export type AcquireResult =
  | { readonly kind: "attached"; readonly link: AnchorLink; readonly lease: Lease }
  /** No anchor listens. It has finished, or is dead. */
  | { readonly kind: "silent"; readonly lease: Lease | null }
  /** It listens but does not answer, or not as agreed. */
  | { readonly kind: "unreachable"; readonly lease: Lease | null; readonly error: unknown }
  /** It answers, but the store does not: the run can be watched and stopped, not steered, and if it was ours it is held. */
  | { readonly kind: "unwritable"; readonly observer: AnchorLink; readonly error: unknown }
  /** Somebody else owns it, if the record still says who. */
  | { readonly kind: "replaced"; readonly by: string | null }
  /** The record says it has ended, the anchor says it has not. */
  | { readonly kind: "ended-elsewhere"; readonly observer: AnchorLink };

/**
 * Become the owner of a run whose connection is gone. The new epoch is above everything store and anchor have seen,
 * and it is committed before the anchor hears of it: an epoch that exists nowhere but in a dead process would lock
 * every later owner out.
 */
export async function acquireRun(
  context: SupervisorContext,
  request: AcquireRequest,
): Promise<AcquireResult> {
  const { host } = context;
  let observer: AnchorLink | null;
  try {
    observer = await host.attach(request.run, 0);
  } catch (error) {
    return { kind: "unreachable", error, lease: null };
  }
  if (observer === null) return { kind: "silent", lease: null };

  let claimed: ClaimResult;
  try {
    claimed = await claimLease(context, request, observer.welcome.highestEpoch);
  } catch (error) {
    return { kind: "unwritable", observer: await attachAsOwnerIfOurs(context, request, observer), error };
  }
  if (claimed.kind === "ended") return { kind: "ended-elsewhere", observer };
  try {
    if (claimed.kind === "replaced") return claimed;
    const { lease } = claimed;
    try {
      const link = await host.attach(request.run, lease.epoch);
      return link === null ? { kind: "silent", lease } : { kind: "attached", link, lease };
    } catch (error) {
      return error instanceof StaleEpoch
        ? { kind: "replaced", by: null }
        : { kind: "unreachable", error, lease };
    }
  } finally {
    observer.close();
  }
}

/** What was ours when the store was last heard of must not take us for gone; if it cannot be held, it is observed. */
async function attachAsOwnerIfOurs(
  { host, localCopy, instanceId }: SupervisorContext,
  { run: { runId }, from }: AcquireRequest,
  observer: AnchorLink,
): Promise<AnchorLink> {
  if (localCopy === null || from.ownerInstanceId !== instanceId) return observer;
  const link = await attachKeepalive(host, localCopy, runId).catch(() => null);
  if (link !== null) observer.close();
  return link ?? observer;
}

export type ClaimResult =
  | { readonly kind: "held"; readonly lease: Lease }
  | { readonly kind: "replaced"; readonly by: string | null }
  | { readonly kind: "ended" };

/** Take the lease, in the store only. Of a run whose anchor is gone, that is all there is to take. */
export async function claimLease(
  context: SupervisorContext,
  { run: { runId }, from, expiredForMs, events }: AcquireRequest,
  seenEpoch = 0,
): Promise<ClaimResult> {
  const { store, instanceId } = context;
  let held = from;
  for (;;) {
    const epoch = Math.max(held.epoch, seenEpoch) + 1;
    const lease = await store.acquireLease(
      {
        runId,
        from: held,
        ownerInstanceId: instanceId,
        epoch,
        leaseMs: defaults.leaseMs,
        expiredForMs: held.ownerInstanceId === instanceId ? null : expiredForMs,
      },
      events(epoch),
    );
    if (lease !== null) return { kind: "held", lease };
    if (await restoreIfRolledBack(context, runId)) continue;
    const record = await store.getRun(runId);
    if (record === null) return { kind: "replaced", by: null };
    if (record.state === "exited") return { kind: "ended" };
    if (record.ownerInstanceId !== instanceId) return { kind: "replaced", by: record.ownerInstanceId };
    if (record.leaseEpoch === held.epoch) return { kind: "replaced", by: null };
    if (await isTakenByOtherIncarnation(context, record, held.epoch))
      return { kind: "replaced", by: instanceId };
    held = { ownerInstanceId: instanceId, epoch: record.leaseEpoch };
  }
}

/** Few are written about one run between a claim and the next look at it. */
const EVENTS_READ = 100;

/**
 * Whether a lease of this instance is another process's: it has a newer epoch than this process had, and no event says
 * that this process took it. A claim of this process may have been committed without an answer.
 */
export async function isTakenByOtherIncarnation(
  { instanceId, incarnationId: process, store }: SupervisorContext,
  { runId, ownerInstanceId, leaseEpoch }: RunRecord,
  hadEpoch: number,
): Promise<boolean> {
  if (ownerInstanceId !== instanceId || leaseEpoch <= hadEpoch) return false;
  const events = await store.listEvents({ runId, newestFirst: true, limit: EVENTS_READ });
  return !events.some(
    ({ type, data }) =>
      (type === "attach" || type === "reconcile") && data.process === process && data.epoch === leaseEpoch,
  );
}
