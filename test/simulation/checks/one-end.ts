import type { RunEvent } from "../../../src/model/run-event.js";
import type { RecordCommit } from "../parts/database.js";
import type { RunTruth } from "../run-truth.js";

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
