import type { AnchorEvent, AnchorLink } from "../../anchor/host-interface.js";
import { defaults } from "../../defaults.js";
import { LeaseLost, NotAdopted, NotSteering } from "../../errors.js";
import { finalizeExit } from "../end/finalize.js";
import { failPendingMemberRequests } from "../inspect/list-members.js";
import { detachRun } from "../run/stop-and-detach.js";
import { markStarted } from "../run/record-start.js";
import { recordFirstStop } from "../run/request-stop.js";
import { isInactive, type LiveRun, recordAnchorAnswer } from "../run/live-run.js";
import { recordLostOutput, updateWithheld } from "../run/output.js";
import { step } from "../run/state-machine.js";
import { recordSurvivors } from "./record-survivors.js";
import { onServiceAck } from "./bind-link.js";
import { reattach } from "./reattach.js";

/** Applies the events of an anchor, in order. Events of an earlier connection are ignored. */
export function onAnchorEvent(live: LiveRun, link: AnchorLink, event: AnchorEvent): void {
  if (isInactive(live) || live.link !== link) return;
  if (event.type !== "closed") recordAnchorAnswer(live);
  switch (event.type) {
    case "started":
      return markStarted(live);
    case "failed":
      // The exit that follows is durable; it gets this message, which names the command.
      live.failure = event.failure;
      live.state = step(live.state, event);
      return;
    case "output":
      live.withheld[event.stream] = event.withheld === true;
      if (event.acked !== undefined) live.outputRanges.setAcked(event.stream, event.acked);
      updateWithheld(live);
      recordLostOutput(live, event.stream, event.lost ?? 0);
      // The end of a stream is not output.
      if (!live.outputRanges.update(event.stream, event)) return;
      live.lastOutput.onOutput();
      live.deadlines.recordProgress();
      return;
    case "stdin":
      return live.stdin.credit(event);
    case "leader":
      live.state = step(live.state, event);
      return scheduleExitingRecord(live);
    case "stopping":
      live.firstStop = event.stop;
      live.state = step(live.state, { type: "stop", stop: event.stop });
      return recordFirstStop(live, event.stop);
    case "survivors":
      live.state = step(live.state, event);
      return recordSurvivors(live, event.survivors, "its anchor keeps trying to kill them");
    case "exited":
      failPendingMemberRequests(live);
      return finalizeExit(live, event.exit, "anchor");
    case "refused":
      return onAnchorRefusal(live, event);
    case "adopted":
      return live.pendingAdoption?.resolve();
    case "signalled":
      return live.pendingSignal?.resolve(event.count);
    case "members":
      return live.memberRequests.get(event.requestId)?.resolve(event.processes);
    case "caller":
      live.hasCaller = event.connected;
      return;
    case "status":
      return onServiceAck(live, event.welcome);
    case "closed":
      live.link = null;
      live.stdin.detach();
      // The attach of the new run finds out if the anchor adopted the process.
      live.pendingAdoption?.resolve();
      live.pendingSignal?.reject(new NotSteering(live.facts.runId, "its anchor does not answer"));
      failPendingMemberRequests(live);
      if (!live.reattaching && !live.anchorLiveness.handling)
        live.context.track(live.facts.runId, reattach(live));
      return;
  }
}

/** The end mostly follows at once, so `exiting` is recorded only if it lasts. */
function scheduleExitingRecord(live: LiveRun): void {
  if (live.exitingTimer !== null || live.stopRecorded) return;
  const { clock } = live.context;
  live.exitingTimer = clock.setTimer(defaults.exitingNoteMs, () => {
    live.writeQueue.enqueue({ to: "exiting", at: clock.wall() });
  });
}

function onAnchorRefusal(live: LiveRun, { code, message }: Extract<AnchorEvent, { type: "refused" }>): void {
  const { runId } = live.facts;
  // An older anchor does not know the request for members, and its refusal names no request.
  if (live.memberRequests.size > 0 && code === "unknown-frame") return failPendingMemberRequests(live);
  if (live.pendingAdoption !== null && (code.startsWith("adopt-") || code === "unknown-frame"))
    return live.pendingAdoption.reject(new NotAdopted(runId, message));
  if (live.pendingSignal !== null && (code.startsWith("signal-") || code === "unknown-frame"))
    return live.pendingSignal.reject(new NotSteering(runId, message));
  switch (code) {
    case "stale-epoch":
    case "not-owner":
      // Expected for an observer.
      if (live.isOwner) detachRun(live, new LeaseLost(runId, live.writeQueue.lease.epoch));
      return;
    case "bad-phase":
      // The run was ending when the command arrived.
      return;
    default:
      live.context.report({
        runId,
        message: `run ${runId}: its anchor refused a command (${code}): ${message}`,
        cause: null,
      });
  }
}
