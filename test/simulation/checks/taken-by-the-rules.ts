import type { MachineIdentity } from "../../../src/anchor/host.js";
import { defaults } from "../../../src/defaults.js";
import type { RunRecord } from "../../../src/model/run.js";
import type { RunTruth } from "../run-truth.js";

export interface LeaseTransfer {
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
  // Whether its owner was back by then cannot be told from outside: the look was before, and nothing runs any more.
  if (before.bootId !== taker.bootId)
    return local ? null : `${lease}, of another boot and not of this state directory`;
  if (expiredMs < 0) return `${lease} ${-expiredMs} ms before it expired`;
  if (before.pidNamespace !== taker.pidNamespace)
    return truth.exitFileWritten() ? null : `${lease}, from another container`;
  if (lockWasFree && local) return null;
  if (expiredMs < defaults.stalledOwnerMs) return `${lease}, whose owner holds its lock`;
  return hindered ? null : `${lease}, although nothing but suspend kept the owner from renewing`;
}
