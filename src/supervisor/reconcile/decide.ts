import type { CgroupState, LocalInstance } from "../../anchor/host.js";
import type { MachineIdentity } from "../../model/process.js";
import type { Liveness } from "../../anchor/inspect/liveness.js";
import { defaults } from "../../defaults.js";
import { isSameClock, isSameMachine } from "../../home/machine-identity.js";
import type { RunRecord } from "../../model/run.js";
import type { Decision, Row } from "../decision.js";

/** What is true of all records at once. */
export interface ReconcileContext {
  readonly instanceId: string;
  /** Null: there is but one state directory. */
  readonly stateId: string | null;
  readonly machine: MachineIdentity;
  /** On the store's clock. */
  readonly now: number;
  readonly instances: ReadonlyMap<string, LocalInstance>;
  /** For how long this supervisor, awake, has seen nothing of the run's owner. */
  readonly unreachableMs: (runId: string) => number;
  /** The store's clock goes on while this machine sleeps, and while nobody can reach the store. */
  readonly sharedClock: boolean;
}

/** What could be seen of one run. */
export interface Evidence {
  readonly exitFile: boolean;
  readonly swept: boolean;
  readonly anchor: Liveness;
  readonly root: Liveness;
  /** Null: the run has none. */
  readonly boundary: CgroupState | null;
  /** Somebody alive carries the run's marker, wherever he is. */
  readonly marked: boolean;
  /** The fail-closed comparison of an imported record. Null for a run of ours. */
  readonly imported: ImportedEvidence | null;
}

export type ImportedEvidence =
  | { readonly kind: "matches" }
  | { readonly kind: "gone" }
  | { readonly kind: "differs"; readonly why: string }
  | { readonly kind: "unknown"; readonly why: string };

/** How a record stands to this supervisor, before anybody has looked at a process. */
export type LeaseStanding =
  | { readonly kind: "decided"; readonly decision: Decision }
  /** Out of reach for too long: ended on record, without a look. */
  | { readonly kind: "given-up"; readonly claim: ClaimGround; readonly decision: Decision }
  /** To be looked at; `claim` says on which ground its lease may be had. */
  | { readonly kind: "open"; readonly claim: ClaimGround };

/** Owner of a record that no supervisor has ever held: it was imported. */
export const NEVER_OWNED = "";

/** Null as `expiredForMs`: its expiry does not matter. */
export interface ClaimGround {
  readonly evidence: "mine" | "lock-free" | "stalled" | "other-boot" | "never-owned" | "unheard-of";
  readonly expiredForMs: number | null;
}

/** The rows that need no look: whose lease it is, and whether its numbers mean anything here. */
export function judgeLease(record: RunRecord, reconcileContext: ReconcileContext): LeaseStanding {
  const { machine, now } = reconcileContext;
  const sameHost = record.hostId === machine.hostId;
  const sameBoot = sameHost && record.bootId === machine.bootId;
  const here = isSameMachine(record, machine);
  const expiredMs = now - record.leaseExpiresAt;
  const owner = reconcileContext.instances.get(record.ownerInstanceId);

  if (record.ownerInstanceId !== reconcileContext.instanceId) {
    // A lease of another boot was measured on another clock; whoever holds its lock now looks after it.
    if (owner?.alive === true && !sameBoot) return leaveAlone("healthy", "its owner lives");
    // Leases of several machines are measured on the store's own clock.
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
  // On a clock that never stops all leases have expired after a sleep or an outage, and every owner is about to renew.
  const watched =
    !reconcileContext.sharedClock || reconcileContext.unreachableMs(record.runId) >= defaults.stalledWatchMs;
  if (expiredMs >= defaults.stalledOwnerMs && here && watched)
    return openToClaim("stalled", defaults.stalledOwnerMs);
  const why =
    owner === undefined
      ? "its lease has expired, but its owner's lock cannot be seen here"
      : "its lease has expired, but its owner holds its lock: it may be asleep";
  return leaveAlone("stalled", why);
}

/** Its lock, directory and socket are there. One that does not say, of a former release, counts as here. */
function isSameStateDirectory({ stateId }: RunRecord, reconcileContext: ReconcileContext): boolean {
  return stateId === null || reconcileContext.stateId === null || stateId === reconcileContext.stateId;
}

function decideOutOfReach(
  record: RunRecord,
  reconcileContext: ReconcileContext,
  where: string,
): LeaseStanding {
  if (reconcileContext.unreachableMs(record.runId) < defaults.hostLostMs)
    return leaveAlone("elsewhere", `it lives in ${where}; its owner must come back for it`);
  const decision = {
    row: "elsewhere",
    action: "lose",
    why: `nothing was heard of its owner, in ${where}, for a day`,
  } as const;
  // Of another boot of this machine the expiry may be that of another clock.
  const { hostId, bootId } = reconcileContext.machine;
  const otherClock = record.hostId === hostId && record.bootId !== bootId;
  const claim = { evidence: "unheard-of", expiredForMs: otherClock ? null : 0 } as const;
  return { kind: "given-up", claim, decision };
}

/** The rows that follow from a look. `record` is open to us by `claim`. */
export function decide(
  record: RunRecord,
  claim: ClaimGround,
  evidence: Evidence,
  here: MachineIdentity,
  unreachableMs = 0,
): Decision {
  if (evidence.exitFile)
    return { row: "exit-file", action: "finalize", why: "it had ended; its exit file says how" };
  if (record.bootId !== here.bootId)
    return {
      row: "other-boot",
      action: "lose",
      why: "the machine was restarted, which ended all of its processes",
    };
  const sameNamespace = record.pidNamespace === here.pidNamespace;
  // Whoever has its number in this container is another process, however alike the two may look.
  if (evidence.imported !== null && !sameNamespace) return decideElsewhere(evidence, unreachableMs);
  if (evidence.imported !== null) return decideImported(evidence.imported);
  const mine = claim.evidence === "mine";
  const taken = record.originInstanceId !== record.ownerInstanceId;
  // Its socket may still answer: who owns it asks. Nobody else may, by the rule for taking over.
  if (!sameNamespace && !mine) return decideElsewhere(evidence, unreachableMs);
  if (evidence.anchor === "alive") return decideAlive(record, mine, taken);
  if (evidence.anchor === "unknown") return inconclusive(record, here);
  if (record.root === null) {
    if (evidence.boundary === "populated")
      return {
        row: "detached-orphaned",
        action: "sweep",
        why: "nobody answers for it, but its cgroup is not empty",
      };
    if (evidence.boundary === "unknown") return inconclusive(record, here);
    if (wasOrphan(record))
      return {
        row: "unverifiable",
        action: "lose",
        why: "it was found without a record; whether it ran is not known, and nothing was signalled",
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

/** A container that is gone takes its processes with it, but does not say so. */
function decideElsewhere({ anchor }: Evidence, unreachableMs: number): Decision {
  if (anchor !== "gone" || unreachableMs < defaults.hostLostMs)
    return { row: "elsewhere", action: "leave", why: "it lives in another container" };
  return {
    row: "elsewhere",
    action: "lose",
    why: "nothing was heard of it, in another container, for a day",
  };
}

/** Its record was made from its directory: that it names no process does not mean that there was none. */
function wasOrphan({ leaseId, imported }: RunRecord): boolean {
  return leaseId === "" && imported === null;
}

/** Fail closed: what cannot be looked at is neither signalled nor given up. */
function inconclusive(record: RunRecord, here: MachineIdentity): Decision {
  const why = isSameClock(record, here)
    ? "its processes cannot be looked at now, so nothing is concluded"
    : `it was started in another time namespace (${record.timeNamespace ?? "not recorded"}), and this kernel has no unique ids to tell its processes from others here (${here.timeNamespace}); nothing is concluded: look from there`;
  return { row: "unseen", action: "leave", why };
}

/** Nor is anything concluded while what is written in its directory cannot be read. */
export const UNREADABLE: Decision = {
  row: "unseen",
  action: "leave",
  why: "its directory cannot be read, so nothing is concluded",
};

function decideAlive(record: RunRecord, mine: boolean, taken: boolean): Decision {
  // Taken over by an earlier process of this instance, which may have died before it could stop it.
  if (mine && (!taken || record.policy.onOrphan === "adopt"))
    return { row: "anchor-alive", action: "continue", why: "its anchor lives" };
  if (record.policy.onOrphan === "adopt")
    return { row: "anchor-alive", action: "adopt", why: "its owner is gone, its anchor lives" };
  return {
    row: "anchor-alive",
    action: "terminate",
    why: "its owner is gone, its anchor lives, and it is not to outlive its owner",
  };
}

function decideDead(evidence: Evidence, notSeen: Decision): Decision {
  if (evidence.swept)
    return { row: "swept", action: "lose", why: "its anchor died; the launcher ended what it left" };
  if (evidence.root === "alive")
    return { row: "root-alive", action: "sweep", why: "its anchor died; its first process is verified" };
  if (evidence.boundary === "populated")
    return {
      row: "detached-orphaned",
      action: "sweep",
      why: "its anchor and first process are gone, its cgroup is not empty",
    };
  // A look that failed proves nothing.
  if (evidence.root === "unknown" || evidence.boundary === "unknown") return notSeen;
  if (evidence.boundary !== null && evidence.marked)
    return {
      row: "unverifiable",
      action: "lose",
      why: "its anchor died and its cgroup is empty, but somebody outside it carries its marker; nobody was signalled",
    };
  if (evidence.boundary !== null)
    return { row: "swept", action: "lose", why: "its anchor died; its cgroup is empty" };
  return {
    row: "unverifiable",
    action: "lose",
    why: "its anchor and first process are gone; whether others of it live is not known, and nothing was signalled",
  };
}

/** Never on the word of a command line alone: process, place and command must all match, or it is left alone. */
function decideImported(evidence: ImportedEvidence): Decision {
  switch (evidence.kind) {
    case "matches":
      return {
        row: "imported",
        action: "sweep",
        why: "imported: the process lives, its program lies below the recorded wrapper root, its command matches",
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
