import type { AnchorLink, FirstStop, StopRequest } from "../../anchor/host.js";
import { describeSurvivor } from "../../anchor/inspect/processes.js";
import { deferred } from "../../async/deferred.js";
import { defaults } from "../../defaults.js";
import { BadInput, type HoldfastError, LeaseLost, SupervisorClosed } from "../../errors.js";
import { newRequestId } from "../../model/ids.js";
import type { Survivor } from "../../model/process.js";
import { type CancelOptions, checkOneOf, checkText } from "../check-options.js";
import {
  type CloseRequest,
  expectAnchorAnswer,
  isInactive,
  type LiveRun,
  runEventBase,
  type SupervisorContext,
} from "./live-run.js";
import { step } from "./state.js";

const STOP_REASONS = ["manual-cancel", "overall-timeout", "no-output-timeout", "shutdown"] as const;

/** The complete request; throws for invalid options. */
export function toStopRequest(options: CancelOptions, defaultActor: string): StopRequest {
  const {
    reason = "manual-cancel",
    actor = defaultActor,
    requestId = newRequestId(),
    graceMs = null,
  } = options;
  checkOneOf("reason", reason, STOP_REASONS);
  checkText("actor", actor);
  checkText("requestId", requestId);
  if (graceMs !== null && !(Number.isFinite(graceMs) && graceMs >= 0))
    throw new BadInput("graceMs", `graceMs must be a number of milliseconds, 0 or more, not ${graceMs}`);
  return { reason, actor, requestId, graceMs };
}

/** Resolves when the stop was sent to the anchor, or when the run has ended. The anchor keeps the first reason. */
export async function requestStop(live: LiveRun, options: CancelOptions = {}): Promise<void> {
  const stop = toStopRequest(options, live.context.actor);
  if (isInactive(live)) return;
  // A second stop does not change the reason, but it may shorten the grace period.
  if (!live.deadlines.requestStop(stop)) sendStop(live, stop);
  if (live.pendingStops.length === 0) return;
  live.pendingStopsSent ??= deferred<void>();
  // After this time the run is ended without its anchor if possible. Otherwise the stop stays pending.
  await live.context.clock.sleep(defaults.stopBoundMs, live.pendingStopsSent.promise);
  // The lease was stolen before the stop was sent.
  if (live.detachedBy instanceof LeaseLost) throw live.detachedBy;
}

/** Goes to the anchor before the record, so that a stop works without the store. */
export function sendStop(live: LiveRun, stop: StopRequest): void {
  if (isInactive(live)) return;
  live.state = step(live.state, { type: "stop", stop });
  live.requestedStop ??= stop;
  if (live.link === null) live.pendingStops.push(stop);
  else live.link.stop(stop);
  expectAnchorAnswer(live);
}

/** Sends the stop again if the earlier connection broke before the anchor received it. */
export function resendStop({ requestedStop, pendingStops }: LiveRun, link: AnchorLink): void {
  if (requestedStop !== null && link.welcome.firstStop === null && !pendingStops.includes(requestedStop))
    link.stop(requestedStop);
}

/** Sends the stops that were requested without a connection, in order. */
export function sendPendingStops(live: LiveRun): void {
  if (live.link !== null && live.pendingStops.length > 0) {
    for (const stop of live.pendingStops) live.link.stop(stop);
    expectAnchorAnswer(live);
  }
  live.pendingStops = [];
  live.pendingStopsSent?.resolve();
  live.pendingStopsSent = null;
}

/** Records the first stop once. Only the anchor knows which stop was the first. */
export function recordFirstStop(live: LiveRun, { reason, actor, requestId }: FirstStop): void {
  if (live.stopRecorded) return;
  live.stopRecorded = true;
  const at = live.context.clock.wall();
  live.writeQueue.enqueue({ to: "exiting", at }, [
    { ...runEventBase(live, at), type: "cancel", data: { reason, actor, requestId } },
  ]);
}

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
