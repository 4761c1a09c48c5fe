import { describeSurvivor } from "../../model/process.js";
import { defaults } from "../../defaults.js";
import { type HoldfastError, SupervisorClosed } from "../../errors.js";
import type { CloseRequest, LiveRun, SupervisorContext } from "./live-run.js";
import { requestStop, sendPendingStops } from "./request-stop.js";

/** Detaches from a run: another supervisor owns it, or this one closes and leaves it running. */
export function detachRun(live: LiveRun, error: HoldfastError): void {
  if (live.detachedBy !== null) return;
  live.detachedBy = error;
  if (!(error instanceof SupervisorClosed)) live.context.hasLostRuns = true;
  stopWatchers(live, "this supervisor no longer owns the run");
  live.writeQueue.close(error);
  live.context.runs.delete(live.facts.runId);
  live.context.inserting.delete(live.facts.runId);
  live.recorded.resolve();
  live.ended.reject(error);
}

/** Stops the timers, the connection and the streams of a run. Idempotent. */
export function stopWatchers(live: LiveRun, why: string): void {
  const { link } = live;
  live.link = null;
  link?.close();
  live.deadlines.dispose();
  live.stdin.end(why);
  live.lastOutput.stop();
  live.exitingTimer?.cancel();
  live.exitingTimer = null;
  live.removeAbortListener?.();
  live.removeAbortListener = null;
  sendPendingStops(live);
  live.outputRanges.end();
  live.started.resolve();
}

/** Requests the stop of a run, or detaches from it, when the supervisor closes. Does not wait. */
export function closeRun(live: LiveRun, { actor }: CloseRequest): void {
  if (actor === null) detachOnClose(live);
  else live.context.track(live.facts.runId, requestStop(live, { reason: "shutdown", actor }));
}

function detachOnClose(live: LiveRun): void {
  const { runId } = live.facts;
  const fate =
    live.state.name === "exited"
      ? "has ended, but its end is not recorded"
      : "keeps running under its anchor";
  live.writeQueue.flush();
  detachRun(live, new SupervisorClosed(live.context.instanceId, `run ${runId} ${fate}`));
}

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
