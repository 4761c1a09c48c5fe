import type { RunTruth } from "../run-truth.js";

/** Invariant 4: an epoch is committed before an anchor hears of it, and is above all before it. */
export function epochIsCommitted(epoch: number, truth: RunTruth): string | null {
  if (!truth.committedEpochs.has(epoch)) return `epoch ${epoch} owned its anchor before it was committed`;
  if (epoch <= truth.highestOwned)
    return `epoch ${epoch} became the owner after epoch ${truth.highestOwned} had been`;
  return null;
}

/** Invariant 4: only the newest owner steers. */
export function onlyTheNewestSteers(epoch: number, what: string, truth: RunTruth): string | null {
  if (epoch === truth.highestOwned) return null;
  return `${what} of epoch ${epoch} was obeyed although epoch ${truth.highestOwned} owns it`;
}
