import type { StopOutcome } from "../stop/stop-run.js";
import { resolveRun } from "../client/resolve-run.js";
import { openLocalState } from "../client/local-state.js";
import { stopFoundRun } from "../stop/stop-coordinator.js";

/**
 * A run's anchor needs no gateway to be told. How it ended is for the next gateway to say; what became of it, for this.
 * Null: nothing is known of it.
 */
export async function stopRunWithoutGateway(
  runId: string,
  graceMs: number | null,
  told: () => void,
): Promise<StopOutcome | null> {
  await using localState = await openLocalState();
  const found = localState === null ? null : await resolveRun(localState, runId);
  if (localState === null || found === null) return null;
  return await stopFoundRun(localState, found, graceMs, { onStopSent: told });
}
