import type { CgroupState, LocalInstance } from "../../anchor/host-interface.js";
import type { Liveness } from "../../anchor/inspect/liveness.js";
import { defaults } from "../../defaults.js";
import { isSameClock, isSameMachine, type MachineIdentity } from "../../model/process.js";
import type { RunRecord } from "../../model/run.js";
import type { Decision, Row } from "../reconcile-decision.js";

/** Facts that hold for all records of one pass. */
export interface ReconcileContext {
  readonly instanceId: string;
  /** Null: there is only one state directory. */
  readonly stateId: string | null;
  readonly machine: MachineIdentity;
  /** On the store's clock. */
  readonly now: number;
  readonly instances: ReadonlyMap<string, LocalInstance>;
  /** How long this supervisor, while awake, has seen no sign of the run's owner. */
  readonly unreachableMs: (runId: string) => number;
  /** The store's clock runs while this machine sleeps, and while the store is unreachable. */
  readonly sharedClock: boolean;
}

/** The evidence about one run. */
export interface Evidence {
  readonly exitFile: boolean;
  readonly swept: boolean;
  readonly anchor: Liveness;
  readonly root: Liveness;
  /** Null: the run has no cgroup. */
  readonly boundary: CgroupState | null;
  /** A live process has the run's environment marker; null: the search failed. */
  readonly marked: boolean | null;
  /** Result of the comparison for an imported record; null: the run was not imported. */
  readonly imported: ImportedEvidence | null;
  /** Its anchor has not read START. Found after the anchor was seen to be gone. */
  readonly neverStarted?: boolean;
  /** True: the run has no directory, hence no files and no socket. */
  readonly noDirectory?: boolean;
}

export type ImportedEvidence =
  | { readonly kind: "matches" }
  | { readonly kind: "gone" }
  | { readonly kind: "differs"; readonly why: string }
  | { readonly kind: "unknown"; readonly why: string };

/** The decision that follows from the lease alone, before any process is inspected. */
type LeaseStanding =
  | { readonly kind: "decided"; readonly decision: Decision }
  /** Unreachable for too long: its record is ended without evidence. */
  | { readonly kind: "given-up"; readonly claim: ClaimGround; readonly decision: Decision }
  /** Evidence is needed; `claim` says why its lease may be acquired. */
  | { readonly kind: "open"; readonly claim: ClaimGround };

/** Owner of an imported record, which no supervisor has owned. */
export const NEVER_OWNED = "";

/** `expiredForMs` null: the lease need not have expired. */
export interface ClaimGround {
  readonly evidence: "mine" | "lock-free" | "stalled" | "other-boot" | "never-owned" | "unheard-of";
  readonly expiredForMs: number | null;
}

/** The rows that need no evidence: the owner of the lease, and whether its pids are valid here. */
export function judgeLease(record: RunRecord, reconcileContext: ReconcileContext): LeaseStanding {
  const { machine, now } = reconcileContext;
  const sameHost = record.hostId === machine.hostId;
  const sameBoot = sameHost && record.bootId === machine.bootId;
  const here = isSameMachine(record, machine);
  const expiredMs = now - record.leaseExpiresAt;
  const owner = reconcileContext.instances.get(record.ownerInstanceId);

  if (record.ownerInstanceId !== reconcileContext.instanceId) {
    // A lease of another boot was measured on another clock, so the lock decides.
    if (owner?.alive === true && !sameBoot) return leaveAlone("healthy", "its owner is alive");
    // Leases of several machines are measured on the store's clock.
    if ((sameBoot || !sameHost) && expiredMs < 0) return leaveAlone("healthy", "its lease is healthy");
  }
  const neverOwned = record.ownerInstanceId === NEVER_OWNED;
  const mine = record.ownerInstanceId === reconcileContext.instanceId;
  if (sameHost && !mine && !isSameStateDirectory(record, reconcileContext))
    return decideOutOfReach(record, reconcileContext, "another state directory");
  if (!sameHost) return decideOutOfReach(record, reconcileContext, "another machine");
  if (owner === undefined && !neverOwned && !here)
    return decideOutOfReach(record, reconcileContext, "another boot or container");
  if (mine) return openToClaim("mine", null);
  if (!sameBoot) return openToClaim("other-boot", null);
  if (neverOwned) return openToClaim("never-owned", 0);
  if (owner?.alive === false) return openToClaim("lock-free", 0);
  // On a shared clock, all leases have expired after a sleep or an outage, until their owners renew them.
  const watched =
    !reconcileContext.sharedClock || reconcileContext.unreachableMs(record.runId) >= defaults.stalledWatchMs;
  if (expiredMs >= defaults.stalledOwnerMs && here && watched)
    return openToClaim("stalled", defaults.stalledOwnerMs);
  const why =
    owner === undefined
      ? "its lease has expired, but its owner's lock is not visible here"
      : "its lease has expired, but its owner holds its lock and may be suspended";
  return leaveAlone("stalled", why);
}

/** A record without a state id is of an older release and counts as ours. */
function isSameStateDirectory({ stateId }: RunRecord, reconcileContext: ReconcileContext): boolean {
  return stateId === null || reconcileContext.stateId === null || stateId === reconcileContext.stateId;
}

function decideOutOfReach(
  record: RunRecord,
  reconcileContext: ReconcileContext,
  where: string,
): LeaseStanding {
  if (reconcileContext.unreachableMs(record.runId) < defaults.hostLostMs)
    return leaveAlone("elsewhere", `it is in ${where}; only its owner can continue it`);
  const decision = {
    row: "elsewhere",
    action: "lose",
    why: `its owner, in ${where}, has given no sign of life for a day`,
  } as const;
  // The expiry of another boot of this machine may be of another clock.
  const { hostId, bootId } = reconcileContext.machine;
  const otherClock = record.hostId === hostId && record.bootId !== bootId;
  const claim = { evidence: "unheard-of", expiredForMs: otherClock ? null : 0 } as const;
  return { kind: "given-up", claim, decision };
}

/** The rows that follow from the evidence. */
export function decide(
  record: RunRecord,
  claim: ClaimGround,
  evidence: Evidence,
  here: MachineIdentity,
  unreachableMs = 0,
): Decision {
  if (evidence.exitFile)
    return { row: "exit-file", action: "finalize", why: "it has ended; its exit file says how" };
  if (record.bootId !== here.bootId)
    return {
      row: "other-boot",
      action: "lose",
      why: "the machine was restarted, which ended all of its processes",
    };
  const sameNamespace = record.pidNamespace === here.pidNamespace;
  // A process with the same pid in this container is another one, even if it looks the same.
  if (evidence.imported !== null && !sameNamespace) return decideElsewhere(evidence, unreachableMs);
  if (evidence.imported !== null) return decideImported(evidence.imported);
  const mine = claim.evidence === "mine";
  const taken = record.originInstanceId !== record.ownerInstanceId;
  // Only its owner may try its socket; no other supervisor may take over a run of another namespace.
  if (!sameNamespace && !mine) return decideElsewhere(evidence, unreachableMs);
  if (evidence.anchor === "alive") return decideAlive(record, mine, taken);
  if (evidence.anchor === "unknown") return inconclusive(record, here);
  if (evidence.neverStarted === true && sameNamespace)
    return {
      row: "never-executed",
      action: "spawn-error",
      why: "its anchor died before it read the command",
    };
  if (record.root === null) {
    if (evidence.boundary === "populated")
      return {
        row: "detached-orphaned",
        action: "sweep",
        why: "it has no anchor, but its cgroup is not empty",
      };
    if (evidence.boundary === "unknown") return inconclusive(record, here);
    if (wasOrphan(record))
      return {
        row: "unverifiable",
        action: "lose",
        why: "it was found without a record; whether it ran is not known",
      };
    return { row: "never-executed", action: "spawn-error", why: "it was interrupted before the command ran" };
  }
  if (!sameNamespace)
    return {
      row: "unverifiable",
      action: "lose",
      why: "it ran in another container, so nothing was signalled",
    };
  return decideDead(evidence, inconclusive(record, here));
}

/** A removed container has no processes, but that cannot be seen from here. */
function decideElsewhere({ anchor }: Evidence, unreachableMs: number): Decision {
  if (anchor !== "gone" || unreachableMs < defaults.hostLostMs)
    return { row: "elsewhere", action: "leave", why: "it runs in another container" };
  return {
    row: "elsewhere",
    action: "lose",
    why: "it ran in another container and has given no sign of life for a day",
  };
}

/** The record was created from the run's directory, so processes may exist that it does not name. */
function wasOrphan({ leaseId, imported }: RunRecord): boolean {
  return leaseId === "" && imported === null;
}

/** Fails closed: a run that cannot be inspected is neither signalled nor ended. */
function inconclusive(record: RunRecord, here: MachineIdentity): Decision {
  const why = isSameClock(record, here)
    ? "its processes cannot be inspected now, so nothing is concluded"
    : `it was started in another time namespace (${record.timeNamespace ?? "not recorded"}), and this kernel has no unique process ids to distinguish its processes here (${here.timeNamespace}); nothing is concluded: inspect it from its own namespace`;
  return { row: "unseen", action: "leave", why };
}

export const UNREADABLE: Decision = {
  row: "unseen",
  action: "leave",
  why: "its directory cannot be read, so nothing is concluded",
};

function decideAlive(record: RunRecord, mine: boolean, taken: boolean): Decision {
  // An earlier process of this instance may have taken the run over and died before it could stop it.
  if (mine && (!taken || record.policy.onOrphan === "adopt"))
    return { row: "anchor-alive", action: "continue", why: "its anchor is alive" };
  if (record.policy.onOrphan === "adopt")
    return { row: "anchor-alive", action: "adopt", why: "its owner is gone, its anchor is alive" };
  return {
    row: "anchor-alive",
    action: "terminate",
    why: "its owner is gone, its anchor is alive, and its policy is to end with its owner",
  };
}

function decideDead(evidence: Evidence, notSeen: Decision): Decision {
  if (evidence.swept)
    return {
      row: "swept",
      action: "lose",
      why: "its anchor died; the launcher killed the processes it left",
    };
  if (evidence.root === "alive")
    return { row: "root-alive", action: "sweep", why: "its anchor died; its leader is verified" };
  if (evidence.boundary === "populated")
    return {
      row: "detached-orphaned",
      action: "sweep",
      why: "its anchor and leader are gone, its cgroup is not empty",
    };
  // A failed probe proves nothing.
  if (evidence.root === "unknown" || evidence.boundary === "unknown") return notSeen;
  if (evidence.boundary !== null && evidence.marked === null) return notSeen;
  if (evidence.boundary !== null && evidence.marked === true)
    return {
      row: "unverifiable",
      action: "lose",
      why: "its anchor died and its cgroup is empty, but a process outside has its environment marker; nothing was signalled",
    };
  if (evidence.boundary !== null)
    return { row: "swept", action: "lose", why: "its anchor died; its cgroup is empty" };
  return {
    row: "unverifiable",
    action: "lose",
    why: "its anchor and leader are gone; whether others are alive is not known, and nothing was signalled",
  };
}

/** Process, program path and command must all match; otherwise the process is left alone. */
function decideImported(evidence: ImportedEvidence): Decision {
  switch (evidence.kind) {
    case "matches":
      return {
        row: "imported",
        action: "sweep",
        why: "imported: the process is alive, its program is below the recorded wrapper root, its command matches",
      };
    case "gone":
      return { row: "imported", action: "lose", why: "imported: the process is gone" };
    case "differs":
    case "unknown":
      return { row: "imported", action: "leave", why: `imported, left alone: ${evidence.why}` };
  }
}

function leaveAlone(row: Row, why: string): LeaseStanding {
  return { kind: "decided", decision: { row, action: "leave", why } };
}

function openToClaim(evidence: ClaimGround["evidence"], expiredForMs: number | null): LeaseStanding {
  return { kind: "open", claim: { evidence, expiredForMs } };
}
