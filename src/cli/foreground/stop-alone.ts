import { cancelFound } from "../operator/cancel.js";
import { findRun } from "../operator/find-run.js";
import { openObservatory } from "../operator/observer.js";

/** A run's anchor needs no gateway to be told. What became of it is for the next gateway to say. */
export async function stopAlone(runId: string, graceMs: number | null): Promise<void> {
  await using observatory = await openObservatory();
  const found = observatory === null ? null : await findRun(observatory, runId);
  if (observatory !== null && found !== null) await cancelFound(observatory, found, graceMs);
}
