import type { AnchorEvent, AnchorLink } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import { LeaseLost, NotAdopted, NotSteering } from "../errors.js";
import { anchorAnswered } from "./anchor-liveness.js";
import { heardKind } from "./adopt-run.js";
import { noteStop, noteSurvivors } from "./cancel.js";
import { concludeExit } from "./conclude.js";
import { letGo } from "./let-go.js";
import { isOver, type LiveRun } from "./live-run.js";
import { unanswered } from "./members.js";
import { noteLost, noteWithheld } from "./output.js";
import { regain } from "./regain.js";
import { step } from "./run-state.js";
import { noteStarted } from "./started.js";

/** What an anchor says, in the order it says it. A connection that has been given up is not listened to. */
export function onAnchorEvent(live: LiveRun, link: AnchorLink, event: AnchorEvent): void {
  if (isOver(live) || live.link !== link) return;
  if (event.type !== "closed") anchorAnswered(live);
  switch (event.type) {
    case "started":
      return noteStarted(live);
    case "failed":
      // The exit that follows says it durably; in this one's words, which know what was to be run.
      live.failure = event.failure;
      live.state = step(live.state, event);
      return;
    case "output":
      live.withheld[event.stream] = event.withheld === true;
      noteWithheld(live);
      noteLost(live, event.stream, event.lost ?? 0);
      // The end of a stream is no sign of life.
      if (!live.ranges.update(event.stream, event)) return;
      live.activity.output();
      live.deadlines.progress();
      return;
    case "stdin":
      return live.stdin.credit(event);
    case "leader":
      live.state = step(live.state, event);
      return noteExitingSoon(live);
    case "stopping":
      live.firstStop = event.stop;
      live.state = step(live.state, { type: "stop", stop: event.stop });
      return noteStop(live, event.stop);
    case "survivors":
      live.state = step(live.state, event);
      return noteSurvivors(live, event.survivors, "its anchor stays and goes on trying");
    case "exited":
      unanswered(live);
      return concludeExit(live, event.exit, "anchor");
    case "refused":
      return onRefused(live, event);
    case "adopted":
      return live.adopting?.resolve();
    case "signalled":
      return live.signalling?.resolve(event.count);
    case "members":
      return live.looks.get(event.requestId)?.resolve(event.processes);
    case "status":
      return heardKind(live, event.welcome);
    case "closed":
      live.link = null;
      live.stdin.detach();
      // Whether it was heard is seen when the new run is asked for.
      live.adopting?.resolve();
      live.signalling?.reject(new NotSteering(live.facts.runId, "its anchor does not answer now"));
      unanswered(live);
      if (!live.regaining && !live.liveness.busy) live.context.track(live.facts.runId, regain(live));
      return;
  }
}

/** The end mostly follows at once; a state that lasts a millisecond is not worth a transaction. */
function noteExitingSoon(live: LiveRun): void {
  if (live.exitingNote !== null || live.stopNoted) return;
  const { clock } = live.context;
  live.exitingNote = clock.after(defaults.exitingNoteMs, () => {
    live.journal.note({ to: "exiting", at: clock.wall() });
  });
}

function onRefused(live: LiveRun, { code, message }: Extract<AnchorEvent, { type: "refused" }>): void {
  const { runId } = live.facts;
  // Of an anchor that knows adoption and signals, and not this: the answer has no name.
  if (live.looks.size > 0 && code === "unknown-frame") return unanswered(live);
  if (live.adopting !== null && (code.startsWith("adopt-") || code === "unknown-frame"))
    return live.adopting.reject(new NotAdopted(runId, message));
  if (live.signalling !== null && (code.startsWith("signal-") || code === "unknown-frame"))
    return live.signalling.reject(new NotSteering(runId, message));
  switch (code) {
    case "stale-epoch":
    case "not-owner":
      // An observer is no owner and knows it.
      if (live.owner) letGo(live, new LeaseLost(runId, live.journal.lease.epoch));
      return;
    case "bad-phase":
      // It was on its way out when the command came.
      return;
    default:
      live.context.report({
        runId,
        message: `run ${runId}: its anchor refused a command (${code}): ${message}`,
        cause: null,
      });
  }
}
