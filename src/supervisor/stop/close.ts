import { describeSurvivor } from "../../anchor/inspect/liveness.js";
import { defaults } from "../../defaults.js";
import { detachOnClose } from "../run/lifecycle.js";
import type { LiveRun, SupervisorContext } from "../run/live-run.js";

/**
 * Wait until every run has its end on record. What resists its KILL, or a store that refuses the record, is waited for
 * no longer than its own grace and the time to report it: then it is said who is left, and left to its anchor.
 */
export async function awaitRunEnds(context: SupervisorContext): Promise<void> {
  await Promise.all([...context.runs.values()].map((live) => awaitRunEnd(live)));
}

async function awaitRunEnd(live: LiveRun): Promise<void> {
  const { graceMs, killReportMs, drainMs } = live.facts.policy;
  const ended = live.ended.promise;
  const orderly = graceMs + killReportMs + drainMs + defaults.closeSlackMs;
  // One whose anchor does not answer is asked, continued, and ended without it.
  const silent = defaults.anchorAnswerMs + defaults.anchorContinueMs;
  await live.context.clock.sleep(orderly + silent, ended);
  if (!live.context.runs.has(live.facts.runId)) return;
  const { runId } = live.facts;
  const message = `run ${runId} ${unfinishedReason(live)}; it is left to its anchor, which goes on ending it`;
  live.context.report({ runId, message, cause: null });
}

function unfinishedReason({ state }: LiveRun): string {
  if (state.name === "exited") return "has ended, but its end could not be recorded";
  if (state.name !== "exiting" || state.survivors.length === 0) return "has not ended in time";
  const names = state.survivors.map(describeSurvivor);
  return `still has ${names.join(", ")}`;
}

/** Have nothing more to do with what is left, and say how many. To their anchors this is owner loss. */
export function detachAll({ runs: live }: SupervisorContext): number {
  const left = [...live.values()];
  for (const each of left) detachOnClose(each);
  return left.length;
}
