import { type HoldfastError, SupervisorClosed } from "../../errors.js";
import { type CloseRequest, type LiveRun, runEventBase } from "./live-run.js";
import { requestStop, sendPendingStops } from "./request-stop.js";
import { step } from "./state.js";

/** Detaches from a run: another supervisor owns it, or this one closes and leaves it running. */
export function detachRun(live: LiveRun, error: HoldfastError): void {
  if (live.detachedBy !== null) return;
  live.detachedBy = error;
  if (!(error instanceof SupervisorClosed)) live.context.hasLostRuns = true;
  stopWatchers(live, "this supervisor no longer owns the run");
  live.writeQueue.close(error);
  live.context.runs.delete(live.facts.runId);
  live.ended.reject(error);
}

/** Stops the timers, the connection and the streams of a run. Idempotent. */
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

/** The command was executed `elapsedMs` ago: the deadlines count from there. */
export function markStarted(live: LiveRun, elapsedMs = 0): void {
  live.state = step(live.state, { type: "started" });
  recordStart(live, live.context.clock.wall() - elapsedMs);
  // `elapsedMs` is of the anchor's monotonic clock: the wall clock may have been set since.
  live.deadlines.arm(elapsedMs);
  live.started.resolve();
}

/** Records the start once per run. `ifUnknown`: the start time if none is recorded. */
export function recordStart(live: LiveRun, ifUnknown: number): void {
  // The wall clock may have been set back since the record was created.
  const at = Math.max(live.startedAt?.at ?? ifUnknown, live.writeQueue.record.createdAt);
  if (live.startedAt?.recorded === true) return;
  live.startedAt = { at, recorded: true };
  const tier = live.tier ?? "";
  live.writeQueue.enqueue({ to: "running", at }, [
    { ...runEventBase(live, at), type: "spawn", data: { tier, command: live.facts.command } },
  ]);
}

/** Requests the stop of a run, or detaches from it, when the supervisor closes. Does not wait. */
export function closeRun(live: LiveRun, { actor }: CloseRequest): void {
  if (actor === null) detachOnClose(live);
  else live.context.track(live.facts.runId, requestStop(live, { reason: "shutdown", actor }));
}

export function detachOnClose(live: LiveRun): void {
  const { runId } = live.facts;
  const fate =
    live.state.name === "exited"
      ? "has ended, but its end is not recorded"
      : "keeps running under its anchor";
  detachRun(live, new SupervisorClosed(live.context.instanceId, `run ${runId} ${fate}`));
}
