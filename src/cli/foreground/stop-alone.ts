import type { Outcome } from "../operator/cancel.js";
import { findRun } from "../operator/find-run.js";
import { openObservatory } from "../operator/observer.js";
import { stopFound } from "../stop/stop.js";

/**
 * A run's anchor needs no gateway to be told. How it ended is for the next gateway to say; what became of it, for this.
 * Null: nothing is known of it.
 */
export async function stopAlone(
  runId: string,
  graceMs: number | null,
  told: () => void,
): Promise<Outcome | null> {
  await using observatory = await openObservatory();
  const found = observatory === null ? null : await findRun(observatory, runId);
  if (observatory === null || found === null) return null;
  return await stopFound(observatory, found, graceMs, { told });
}
