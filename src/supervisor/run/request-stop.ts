import type { AnchorLink, FirstStop, StopRequest } from "../../anchor/host-interface.js";
import { deferred } from "../../async/deferred.js";
import { defaults } from "../../defaults.js";
import { BadInput, LeaseLost } from "../../errors.js";
import { newRequestId } from "../../model/ids.js";
import { type CancelOptions, checkOneOf, checkText } from "../check-options.js";
import { expectAnchorAnswer, isInactive, type LiveRun, runEventBase } from "./live-run.js";
import { step } from "./state-machine.js";

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
