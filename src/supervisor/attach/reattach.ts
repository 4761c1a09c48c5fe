import type { AnchorLink, Welcome } from "../../anchor/host-interface.js";
import { deferred } from "../../async/deferred.js";
import { defaults } from "../../defaults.js";
import { LeaseLost } from "../../errors.js";
import { finalizeDeadAnchor } from "../end/finalize.js";
import { resolveDeadAnchor } from "../end/without-anchor.js";
import { acquireRun, isTakenByOtherIncarnation } from "../lease/acquire.js";
import { restoreIfRolledBack } from "../lease/restore-record.js";
import { detachRun } from "../run/stop-and-detach.js";
import { markStarted } from "../run/record-start.js";
import { recordFirstStop, resendStop, sendPendingStops } from "../run/request-stop.js";
import {
  isInactive,
  type LiveRun,
  recordAnchorAnswer,
  runEventBase,
  type SupervisorContext,
} from "../run/live-run.js";
import { STREAMS } from "../run/output-ranges.js";
import { updateWithheld } from "../run/output.js";
import { toRunBoundary } from "../run/recorded-identity.js";
import { step } from "../run/state-machine.js";
import { handleUnresponsiveAnchor } from "./unresponsive-anchor.js";

/**
 * Uses a new connection and applies its WELCOME. Unaccepted input, pending stops and the terminal size are sent again,
 * whatever an earlier connection delivered.
 */
export function bindLink(live: LiveRun, link: AnchorLink, owner: boolean): void {
  const { welcome } = link;
  live.link = link;
  live.isOwner = owner;
  resendStop(live, link);
  applyWelcome(live, welcome);
  if (owner) {
    live.stdin.attach(link, {
      accepted: welcome.stdinAccepted,
      limit: welcome.stdinLimit,
      closed: welcome.stdinClosed,
    });
    if (live.size !== null) link.resize(live.size);
    sendServicePolicy(live, link);
  }
  sendPendingStops(live);
  link.listen((event) => live.listener(link, event));
}

function applyWelcome(live: LiveRun, welcome: Welcome): void {
  const { anchor, root, boundary } = welcome;
  live.tier = boundary.tier;
  live.recordedIdentity = { ...live.recordedIdentity, anchor, root, boundary: toRunBoundary(boundary) };
  for (const stream of STREAMS) {
    live.outputRanges.applyWelcome(stream, welcome[stream]);
    live.withheld[stream] = welcome[stream].withheld === true;
  }
  live.hasCaller = welcome.hasCaller === true;
  updateWithheld(live);
  live.state = step(live.state, { type: "gated", root });
  // `exiting` does not show whether the command ran; the exit does.
  if (welcome.phase === "running") markStarted(live, welcome.elapsedMs ?? 0);
  if (welcome.phase === "exiting") live.started.resolve();
  if (welcome.firstStop !== null) {
    live.firstStop = welcome.firstStop;
    live.state = step(live.state, { type: "stop", stop: welcome.firstStop });
    recordFirstStop(live, welcome.firstStop);
  }
  if (welcome.leader !== null) live.state = step(live.state, { type: "leader", status: welcome.leader });
}

/** Sends the anchor that the run is a service, if it has not confirmed that. */
export function sendServicePolicy(live: LiveRun, link: AnchorLink): void {
  const unknown = live.service !== null && link.welcome.kind !== "service";
  if (live.serviceAck === null && !unknown) return;
  live.serviceAck ??= deferred<void>();
  link.setPolicy({ kind: "service", ...live.deadlines.disabledLimits });
  link.requestStatus();
}

export function onServiceAck(live: LiveRun, { kind }: Welcome): void {
  // An anchor that does not report its kind has obeyed: the command is as old as the protocol.
  if (kind === "task") return;
  live.serviceAck?.resolve();
  live.serviceAck = null;
}

/**
 * Handles a lost connection. The anchor has finished (it left an exit file), is alive (attach again, under a new epoch)
 * or is dead (the launcher cleans up, and the run is lost).
 */
export async function reattach(live: LiveRun): Promise<void> {
  live.reattaching = true;
  await live.recorded.promise;
  try {
    for (let tries = 0; !isInactive(live); tries++) {
      try {
        if (await tryReattach(live, tries)) return;
      } catch (error) {
        const { runId } = live.facts;
        live.context.report({
          runId,
          message: `run ${runId}: its state cannot be determined; trying again`,
          cause: error,
        });
      }
      await live.context.clock.sleep(reattachDelay(live, tries), live.ended.promise);
    }
  } finally {
    live.reattaching = false;
  }
}

/** True: connected again, or the run has ended. */
async function tryReattach(live: LiveRun, tries: number): Promise<boolean> {
  const { context, facts, writeQueue } = live;
  const { runId } = facts;
  // Close the observer of the previous attempt.
  live.link?.close();
  live.link = null;
  if (!(await context.incarnation.isCurrent())) return true;
  const acquired = await acquireRun(context, {
    run: facts.address,
    from: writeQueue.lease,
    expiredForMs: null,
    events: (epoch) => [
      {
        ...runEventBase(live, context.clock.wall()),
        type: "attach",
        data: { epoch, decision: "continue: the connection was lost", process: context.incarnationId },
      },
    ],
  });
  switch (acquired.kind) {
    case "attached":
      if (isInactive(live)) {
        acquired.link.close();
        return true;
      }
      writeQueue.setLease(acquired.lease);
      recordAnchorAnswer(live);
      bindLink(live, acquired.link, true);
      keepGateClosed(live, acquired.link);
      return !connectionLost(live);
    case "unwritable":
      context.report({
        runId,
        message: `run ${runId} can be stopped, but not controlled: its lease could not be written to the store`,
        cause: acquired.error,
      });
      if (isInactive(live)) acquired.observer.close();
      else bindLink(live, acquired.observer, false);
      return false;
    case "replaced":
      onLeaseStolen(live, acquired.by);
      return true;
    case "ended-elsewhere":
      stopOrphanedAnchor(context, acquired.observer);
      detachRun(live, new LeaseLost(runId, writeQueue.lease.epoch));
      return true;
    case "unreachable":
      if (acquired.lease !== null) writeQueue.setLease(acquired.lease);
      await handleUnresponsiveAnchor(live);
      return isInactive(live);
    case "silent": {
      if (acquired.lease !== null) writeQueue.setLease(acquired.lease);
      const deadAnchor = await resolveDeadAnchor(context, live.recordedIdentity, () => isInactive(live));
      // A running anchor creates its socket again.
      if (deadAnchor.kind === "anchor-alive" && tries >= defaults.reattachTries)
        await handleUnresponsiveAnchor(live);
      return finalizeDeadAnchor(live, deadAnchor) || isInactive(live);
    }
  }
}

/** The store has no lease of ours for the run: the store was rolled back, or the run was taken over or ended. */
export async function onLeaseMissing(live: LiveRun): Promise<void> {
  const { context, facts } = live;
  if (await restoreIfRolledBack(context, facts.runId)) return;
  const record = await context.store.getRun(facts.runId);
  if (record === null || record.state === "exited") onLeaseStolen(live, null);
  else if (record.ownerInstanceId !== context.instanceId) onLeaseStolen(live, record.ownerInstanceId);
}

/** Finds out whether a newer epoch means that this process lost one run or the whole instance. */
export async function detectOtherIncarnation({ context, facts }: LiveRun, hadEpoch: number): Promise<void> {
  const record = await context.store.getRun(facts.runId);
  if (record !== null && (await isTakenByOtherIncarnation(context, record, hadEpoch)))
    context.incarnation.markTaken(`it acquired run ${facts.runId} under a newer epoch`);
}

/** Another supervisor owns the run: reports that and detaches. */
function onLeaseStolen(live: LiveRun, by: string | null): void {
  if (isInactive(live)) return;
  if (by === live.context.instanceId)
    return live.context.incarnation.markTaken(`it acquired run ${live.facts.runId} under a newer epoch`);
  const error = new LeaseLost(live.facts.runId, live.writeQueue.lease.epoch, by);
  live.context.report({ runId: live.facts.runId, message: error.message, cause: error });
  detachRun(live, error);
}

/** A command whose first owner was lost before GO must never be executed: a later owner stops it. */
export function keepGateClosed(live: LiveRun, link: AnchorLink): void {
  if (link.welcome.phase !== "gated") return;
  link.stop({ reason: "spawn-error", actor: live.context.actor, requestId: "", graceMs: 0 });
}

/** The record has an end, so the processes must be stopped, too. */
export function stopOrphanedAnchor(context: SupervisorContext, observer: AnchorLink): void {
  observer.stop({ reason: "lost", actor: context.actor, requestId: "", graceMs: null });
  observer.close();
}

/** The link's queued events are applied when it is bound; they may include its end. */
function connectionLost(live: LiveRun): boolean {
  return live.link === null && !isInactive(live);
}

function reattachDelay(live: LiveRun, tries: number): number {
  const { runId } = live.facts;
  if (tries === defaults.reattachTries) {
    const message = `run ${runId}: its anchor is alive but does not answer (stopped, or starved); trying again every ${defaults.storeRetryMaxMs} ms`;
    live.context.report({ runId, message, cause: null });
  }
  return Math.min(defaults.reattachPauseMs * 2 ** tries, defaults.storeRetryMaxMs);
}
