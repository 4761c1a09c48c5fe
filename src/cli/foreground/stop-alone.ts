import { cancelFound } from "../operator/cancel.js";
import { findRun } from "../operator/find-run.js";
import { openObservatory } from "../operator/observer.js";

/** A run's anchor needs no gateway to be told. How it ended is for the next gateway to say; whether it did, for this. */
export async function stopAlone(runId: string, graceMs: number | null): Promise<boolean> {
  await using observatory = await openObservatory();
  const found = observatory === null ? null : await findRun(observatory, runId);
  if (observatory === null || found === null) return false;
  const { outcome } = await cancelFound(observatory, found, graceMs);
  return outcome === "gone" || outcome === "ended-before";
}
