import { describeSurvivor, type Survivor } from "../../model/process.js";
import { type LiveRun, runEventBase } from "../run/live-run.js";

/** Records and reports, once, the processes that survived KILL. */
export function recordSurvivors(live: LiveRun, survivors: readonly Survivor[], next: string): void {
  if (live.survivorsRecorded || survivors.length === 0) return;
  live.survivorsRecorded = true;
  const at = live.context.clock.wall();
  const data = { mode: "pid", residue: 0, ended: 0, survivors: survivors.length } as const;
  live.writeQueue.enqueue(null, [{ ...runEventBase(live, at), type: "cleanup", data }]);
  const { runId } = live.facts;
  const names = survivors.map(describeSurvivor).join(", ");
  const message = `run ${runId}: processes survived KILL: ${names}; ${next}`;
  live.context.report({ runId, message, cause: survivors });
}
