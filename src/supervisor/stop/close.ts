import { describeSurvivor } from "../../anchor/inspect/liveness.js";
import { defaults } from "../../defaults.js";
import { detachOnClose } from "../run/lifecycle.js";
import type { LiveRun, SupervisorContext } from "../run/live-run.js";

/**
 * Waits until the end of every run is recorded. The wait per run is limited by its grace period and the time for KILL;
 * then the remaining processes are reported and left to their anchor.
 */
export async function awaitRunEnds(context: SupervisorContext): Promise<void> {
  await Promise.all([...context.runs.values()].map((live) => awaitRunEnd(live)));
}

async function awaitRunEnd(live: LiveRun): Promise<void> {
  const { graceMs, killReportMs, drainMs } = live.facts.policy;
  const ended = live.ended.promise;
  const orderly = graceMs + killReportMs + drainMs + defaults.closeSlackMs;
  // An anchor that does not answer is probed and continued; then the run is ended without it.
  const silent = defaults.anchorAnswerMs + defaults.anchorContinueMs;
  await live.context.clock.sleep(orderly + silent, ended);
  if (!live.context.runs.has(live.facts.runId)) return;
  const { runId } = live.facts;
  const message = `run ${runId} ${unfinishedReason(live)}; its anchor keeps trying to end it`;
  live.context.report({ runId, message, cause: null });
}

function unfinishedReason({ state }: LiveRun): string {
  if (state.name === "exited") return "has ended, but its end could not be recorded";
  if (state.name !== "exiting" || state.survivors.length === 0) return "did not end in time";
  const names = state.survivors.map(describeSurvivor);
  return `still has ${names.join(", ")}`;
}

/** Detaches from the remaining runs and returns their number. To their anchors this is owner loss. */
export function detachAll({ runs }: SupervisorContext): number {
  const left = [...runs.values()];
  for (const live of left) detachOnClose(live);
  return left.length;
}
