import { defaults } from "../../src/defaults.js";
import type { MachineIdentity } from "../../src/model/process.js";
import type { RunEvent } from "../../src/model/run-event.js";
import type { RunRecord } from "../../src/model/run.js";
import type { SimulatedAnchor } from "./parts/anchor.js";
import type { RecordCommit } from "./parts/database.js";
import type { SignalSender, SimulatedProcess } from "./parts/machine.js";
import type { SimulatedSupervisor } from "./parts/supervisor.js";
import type { RunTruth } from "./run-truth.js";

/** Invariant 4, for two processes of one instance: the earlier one does not take back a lease of the later one. */
export function neverTakenBack(by: SimulatedSupervisor, truth: RunTruth): string | null {
  const last = truth.takers.get(by.instanceId);
  if (last === undefined || last.gone || by.incarnation >= last.incarnation) {
    truth.takers.set(by.instanceId, by);
    return null;
  }
  return `${by.name} took it back from ${last.name}, another of the processes of one instance`;
}

/**
 * Invariant 4: an epoch is committed before an anchor receives it, and is higher than all earlier ones. The first epoch is
 * committed before GO: `recordedBeforeRun`.
 */
export function epochIsCommitted(epoch: number, truth: RunTruth): string | null {
  if (truth.highestOwned > 0 && !truth.committedEpochs.has(epoch))
    return `epoch ${epoch} owned its anchor before it was committed`;
  if (epoch <= truth.highestOwned)
    return `epoch ${epoch} became the owner after epoch ${truth.highestOwned} had been`;
  return null;
}

/** Invariant 4: only the newest owner steers. */
export function onlyNewestOwnerControls(epoch: number, what: string, truth: RunTruth): string | null {
  if (epoch === truth.highestOwned) return null;
  return `${what} of epoch ${epoch} was obeyed although epoch ${truth.highestOwned} owns it`;
}

/** A deadline fires when its time has passed on the monotonic clock, whatever the wall's says. */
export function deadlinesKeepTime(anchor: SimulatedAnchor, reason: string): string | null {
  const { overallMs, noOutputMs } = anchor.spec.policy;
  const limit = { "overall-timeout": overallMs, "no-output-timeout": noOutputMs }[reason];
  if (limit === undefined) return null;
  if (limit === null) return `${reason} fired, and there is none`;
  return anchor.elapsedMs < limit ? `${reason} of ${limit} ms fired after ${anchor.elapsedMs} ms` : null;
}

/** Invariant 5: one terminal transition, never changed afterwards. */
export function endsOnce({ before, after }: RecordCommit): string | null {
  if (before?.state !== "exited") return null;
  return `its record had ended (${before.exit?.reason}) and was changed (${after.exit?.reason})`;
}

/** Invariant 5: at most one exit event. */
export function exitEventOnce(event: RunEvent, truth: RunTruth): string | null {
  if (event.type !== "exit") return null;
  truth.exitEvents++;
  return truth.exitEvents > 1 ? `its end was told ${truth.exitEvents} times` : null;
}

/** Invariant 1: no stranger, and nothing of another machine, boot or container, is ever signalled. */
export function signalsOnlyOwnProcesses(by: SignalSender, target: SimulatedProcess): string | null {
  const { pid } = target.identity;
  if (target.place !== by.place) return `${by.who} signalled ${pid} of another pid namespace`;
  if (target.runId === undefined) return `${by.who} signalled ${pid} (${target.what}), which is of no run`;
  if (by.runId !== null && target.runId !== by.runId)
    return `${by.who} signalled ${pid}, which is of another run`;
  return null;
}

/** Invariant 1: the anchor of another run is neither ended nor continued. */
export function signalsOnlyOwnAnchor(who: string, runId: string, target: SimulatedProcess): string | null {
  if (target.directoryOf === runId) return null;
  return `${who} signalled ${target.identity.pid}, which is the anchor of another run`;
}

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

/** Invariant 3: nothing of the command runs before its process is on record. */
export function recordedBeforeRun(anchor: SimulatedAnchor, record: RunRecord | null): string | null {
  if (record === null) return "its command ran without a record";
  if (record.root === null) return "its command ran before its process was on record";
  const { pid, startTime, uniqueId } = anchor.root.identity;
  const same =
    record.root.pid === pid && record.root.startTime === startTime && record.root.uniqueId === uniqueId;
  return same ? null : "its command ran as another process than the record says";
}

/** An anchor that never had a run is never recorded as one. */
export function recordedWithRun({ leaseId }: RunRecord, { anchor, forgotten }: RunTruth): string | null {
  return leaseId === "" && anchor === null && !forgotten
    ? "it was recorded, and its anchor has no run"
    : null;
}

interface LeaseTransfer {
  readonly before: RunRecord;
  readonly after: RunRecord;
  /** Where the new owner is. */
  readonly taker: MachineIdentity;
  /** On the store's clock. */
  readonly now: number;
  readonly truth: RunTruth;
  /** The former owner's lock is free, or has been since it last renewed. */
  readonly lockWasFree: boolean;
  /** The former owner's directory lies in the taker's state directory. */
  readonly local: boolean;
  /** Something kept the former owner from renewing: stopped, starved, or a store that refused. */
  readonly hindered: boolean;
}

/** Design §6: expired, and (lock free or stalled); same host, boot and namespace; or of another boot and dead. */
export function leaseTakenByRules(taking: LeaseTransfer): string | null {
  const { before, after, taker, now, truth, lockWasFree, local, hindered } = taking;
  if (before.ownerInstanceId === after.ownerInstanceId) return null;
  const expiredMs = now - before.leaseExpiresAt;
  const lease = `the lease of ${before.ownerInstanceId} was taken by ${after.ownerInstanceId}`;
  if (before.hostId !== taker.hostId)
    return expiredMs >= defaults.hostLostMs ? null : `${lease}, from another machine`;
  // The return of its owner is not visible here: the evidence is older, and no process runs any more.
  if (before.bootId !== taker.bootId)
    return local ? null : `${lease}, of another boot and not of this state directory`;
  if (expiredMs < 0) return `${lease} ${-expiredMs} ms before it expired`;
  if (before.pidNamespace !== taker.pidNamespace)
    return truth.exitFileWritten() ? null : `${lease}, from another container`;
  if (lockWasFree && local) return null;
  if (expiredMs < defaults.stalledOwnerMs) return `${lease}, whose owner holds its lock`;
  return hindered ? null : `${lease}, although nothing but suspend kept the owner from renewing`;
}
