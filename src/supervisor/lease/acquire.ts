import type { AnchorHost, AnchorLink, RunAddress } from "../../anchor/host-interface.js";
import { runConcurrently } from "../../async/concurrency.js";
import { defaults } from "../../defaults.js";
import { StaleEpoch } from "../../errors.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunRecord } from "../../model/run.js";
import type { RunCopy } from "../../store/local-copy/run-copy.js";
import type { Lease } from "../../store/runs/contract.js";
import type { SupervisorContext } from "../run/live-run.js";
import { runAddressOf } from "../run/recorded-identity.js";
import { restoreIfRolledBack } from "./restore-record.js";

/**
 * Connects to an anchor as its owner while the store is unreachable, so that the anchor does not end the task for owner
 * loss. The epoch is not in the store; later claims take one above it. The link controls nothing. Null: no anchor
 * answers, or it has had a newer owner since the local copy was written.
 */
export async function attachKeepalive(
  host: Pick<AnchorHost, "attach">,
  localCopy: RunCopy,
  runId: string,
): Promise<AnchorLink | null> {
  const copy = await localCopy.get(runId);
  if (copy === null) return null;
  const run = runAddressOf(copy.record);
  const observer = await host.attach(run, 0);
  if (observer === null) return null;
  try {
    const { highestEpoch } = observer.welcome;
    if (highestEpoch > copy.anchorEpoch) return null;
    const epoch = copy.anchorEpoch + 1;
    // Written before the anchor gets the epoch, for the next process of this instance. If that fails, only the next
    // process cannot keep the run alive.
    await localCopy.keep({ ...copy, anchorEpoch: epoch }).catch(() => undefined);
    return await host.attach(run, epoch);
  } finally {
    observer.close();
  }
}

/** Keeps an instance's runs alive while the store is unreachable. The next epoch of a run replaces its link. */
export class KeepaliveLinks {
  readonly #host: Pick<AnchorHost, "attach">;
  readonly #localCopy: RunCopy;
  readonly #instanceId: string;
  readonly #attached = new Set<string>();

  constructor(host: Pick<AnchorHost, "attach">, localCopy: RunCopy, instanceId: string) {
    this.#host = host;
    this.#localCopy = localCopy;
    this.#instanceId = instanceId;
  }

  get size(): number {
    return this.#attached.size;
  }

  /** Attaches to every open run of this instance that is not attended. Failures are tried again in the next call. */
  async attachAll(isAttended: (runId: string) => boolean = () => false): Promise<void> {
    const runIds = await this.#localCopy.runIds().catch(() => []);
    const work = runIds
      .filter((runId) => !this.#attached.has(runId) && !isAttended(runId))
      .map((runId) => () => this.#attach(runId).catch(() => undefined));
    await runConcurrently(defaults.recoverAtOnce, work);
  }

  async #attach(runId: string): Promise<void> {
    const record = (await this.#localCopy.get(runId))?.record ?? null;
    if (record === null || record.state === "exited" || record.ownerInstanceId !== this.#instanceId) return;
    const link = await attachKeepalive(this.#host, this.#localCopy, runId);
    if (link === null) return;
    this.#attached.add(runId);
    link.listen((event) => {
      if (event.type === "closed") this.#attached.delete(runId);
    });
  }
}

/** The owner and epoch in a record. */
type LeaseHolder = Omit<Lease, "runId">;

export interface AcquireRequest {
  readonly run: RunAddress;
  readonly from: LeaseHolder;
  readonly expiredForMs: number | null;
  /** Committed with the lease. They name this process, which distinguishes its claims from those of other processes. */
  readonly events: (epoch: number) => readonly NewRunEvent[];
}

export type AcquireResult =
  | { readonly kind: "attached"; readonly link: AnchorLink; readonly lease: Lease }
  /** No anchor listens: it has finished, or is dead. */
  | { readonly kind: "silent"; readonly lease: Lease | null }
  /** The anchor listens but does not answer, or violates the protocol. */
  | { readonly kind: "unreachable"; readonly lease: Lease | null; readonly error: unknown }
  /** The anchor answers, but the store does not: the run can be observed and stopped, not controlled. */
  | { readonly kind: "unwritable"; readonly observer: AnchorLink; readonly error: unknown }
  /** Another supervisor owns it; `by` null: its record does not say which. */
  | { readonly kind: "replaced"; readonly by: string | null }
  /** The record has an end, but the anchor is alive. */
  | { readonly kind: "ended-elsewhere"; readonly observer: AnchorLink };

/**
 * Acquires a run and attaches to its anchor. The new epoch is above every epoch that the store and the anchor know, and
 * is committed before the anchor gets it: an epoch that only a dead process knew would lock out every later owner.
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

/** Keeps the anchor of an own run from seeing owner loss while the store is unreachable; otherwise observes. */
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

type ClaimResult =
  | { readonly kind: "held"; readonly lease: Lease }
  | { readonly kind: "replaced"; readonly by: string | null }
  | { readonly kind: "ended" };

/** Takes the lease in the store, without attaching to the anchor. */
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

/** Few events of one run are written between a claim and this check. */
const EVENTS_READ = 100;

/**
 * True if another process of this instance holds the lease: the epoch is newer, and no event says that this process took
 * it. A claim of this process may have been committed without an answer.
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
