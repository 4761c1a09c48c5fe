import type { RunTruth } from "./run-truth.js";
import type { SimulatedSupervisor } from "./parts/supervisor.js";

/** Invariant 4, for two processes of one instance: what the later one has taken, the earlier one does not take back. */
export function neverTakenBack(by: SimulatedSupervisor, truth: RunTruth): string | null {
  const last = truth.takers.get(by.instanceId);
  if (last === undefined || last.gone || by.incarnation >= last.incarnation) {
    truth.takers.set(by.instanceId, by);
    return null;
  }
  return `${by.name} took it back from ${last.name}, another of the processes of one instance`;
}

/** Invariant 4: an epoch is committed before an anchor hears of it, and is above all before it. */
export function epochIsCommitted(epoch: number, truth: RunTruth): string | null {
  if (!truth.committedEpochs.has(epoch)) return `epoch ${epoch} owned its anchor before it was committed`;
  if (epoch <= truth.highestOwned)
    return `epoch ${epoch} became the owner after epoch ${truth.highestOwned} had been`;
  return null;
}

/** Invariant 4: only the newest owner steers. */
export function onlyNewestOwnerControls(epoch: number, what: string, truth: RunTruth): string | null {
  if (epoch === truth.highestOwned) return null;
  return `${what} of epoch ${epoch} was obeyed although epoch ${truth.highestOwned} owns it`;
}
