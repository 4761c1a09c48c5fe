import { type HoldfastError, SupervisorClosed } from "../../errors.js";
import { type CloseRequest, type LiveRun, runEventBase } from "./live-run.js";
import { requestStop, sendPendingStops } from "./request-stop.js";
import { step } from "./state.js";

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

/** The command has been exec'd, so long ago: the deadlines run from there. */
export function markStarted(live: LiveRun, elapsedMs = 0): void {
  live.state = step(live.state, { type: "started" });
  recordStart(live, live.context.clock.wall() - elapsedMs);
  // On the anchor's monotonic clock: the wall's may have been set since.
  live.deadlines.arm(elapsedMs);
  live.started.resolve();
}

/** Once per run; a run taken up again has been noted before, or is dated by its record. */
export function recordStart(live: LiveRun, ifUnknown: number): void {
  // The clock may have been set back since it was asked for.
  const at = Math.max(live.startedAt?.at ?? ifUnknown, live.writeQueue.record.createdAt);
  if (live.startedAt?.recorded === true) return;
  live.startedAt = { at, recorded: true };
  const tier = live.tier ?? "";
  live.writeQueue.enqueue({ to: "running", at }, [
    { ...runEventBase(live, at), type: "spawn", data: { tier, command: live.facts.command } },
  ]);
}

/** Ask a run to end, or let go of it: what closing means for one. Does not wait for either. */
export function closeRun(live: LiveRun, { actor }: CloseRequest): void {
  if (actor === null) detachOnClose(live);
  else live.context.track(live.facts.runId, requestStop(live, { reason: "shutdown", actor }));
}

export function detachOnClose(live: LiveRun): void {
  const { runId } = live.facts;
  const fate =
    live.state.name === "exited" ? "has ended, but its end is not on record" : "was left to its anchor";
  detachRun(live, new SupervisorClosed(live.context.instanceId, `run ${runId} ${fate}`));
}
