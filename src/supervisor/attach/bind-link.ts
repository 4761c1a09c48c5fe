import type { AnchorLink, Welcome } from "../../anchor/host-interface.js";
import { deferred } from "../../async/deferred.js";
import { markStarted } from "../run/record-start.js";
import { recordFirstStop, resendStop, sendPendingStops } from "../run/request-stop.js";
import type { LiveRun } from "../run/live-run.js";
import { STREAMS } from "../run/output-ranges.js";
import { updateWithheld } from "../run/output.js";
import { toRunBoundary } from "../run/recorded-identity.js";
import { step } from "../run/state-machine.js";

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

/** A command whose first owner was lost before GO must never be executed: a later owner stops it. */
export function keepGateClosed(live: LiveRun, link: AnchorLink): void {
  if (link.welcome.phase !== "gated") return;
  link.stop({ reason: "spawn-error", actor: live.context.actor, requestId: "", graceMs: 0 });
}
