import { SupervisorClosed, type HoldfastError } from "../../errors.js";
import { sendPendingStops } from "./request-stop.js";
import type { LiveRun } from "./live-run.js";

/** Have nothing more to do with a run: somebody else owns it, or this supervisor closes and leaves it. */
export function detachRun(live: LiveRun, error: HoldfastError): void {
  if (live.detachedBy !== null) return;
  live.detachedBy = error;
  if (!(error instanceof SupervisorClosed)) live.context.hasLostRuns = true;
  stopWatchers(live, "this supervisor no longer holds the run");
  live.writeQueue.close(error);
  live.context.runs.delete(live.facts.runId);
  live.ended.reject(error);
}

/** Stop everything that works for the run. Idempotent. */
export function stopWatchers(live: LiveRun, why: string): void {
  const { link } = live;
  live.link = null;
  link?.close();
  live.deadlines.dispose();
  live.stdin.end(why);
  live.activity.stop();
  live.exitingTimer?.cancel();
  live.exitingTimer = null;
  live.removeAbortListener?.();
  live.removeAbortListener = null;
  sendPendingStops(live);
  live.outputRanges.end();
  live.started.resolve();
}
