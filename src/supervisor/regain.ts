import type { AnchorLink } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import { LeaseLost } from "../errors.js";
import { anchorAnswered } from "./anchor-liveness.js";
import { handleUnresponsive } from "./unresponsive-anchor.js";
import { adopt } from "./adopt.js";
import { aftermath } from "./aftermath.js";
import { concludeAftermath } from "./conclude.js";
import type { Context } from "./context.js";
import { letGo } from "./let-go.js";
import { eventFacts, isOver, type LiveRun } from "./live-run.js";
import { putBack } from "./put-back.js";
import { takenByAnotherProcess, takeUp } from "./take-up.js";

/**
 * The connection broke without a word of the run's end. Its anchor has finished (the exit file knows), lives (attach
 * again, under a new epoch) or is dead (the launcher cleans up; the run is lost).
 */
export async function regain(live: LiveRun): Promise<void> {
  live.regaining = true;
  try {
    for (let tries = 0; !isOver(live); tries++) {
      try {
        if (await attempt(live, tries)) return;
      } catch (error) {
        const { runId } = live.facts;
        live.context.report({
          runId,
          message: `run ${runId}: cannot find out what became of it; trying again`,
          cause: error,
        });
      }
      await live.context.clock.pause(pauseAfter(live, tries), live.ended.promise);
    }
  } finally {
    live.regaining = false;
  }
}

/** True: connected again, or over. */
async function attempt(live: LiveRun, tries: number): Promise<boolean> {
  const { context, facts, journal } = live;
  const { runId } = facts;
  // An observer of the attempt before has done its service.
  live.link?.close();
  live.link = null;
  if (!(await context.incarnation.isCurrent())) return true;
  const found = await takeUp(context, {
    run: facts.address,
    from: journal.lease,
    expiredForMs: null,
    events: (epoch) => [
      {
        ...eventFacts(live, context.clock.wall()),
        type: "attach",
        data: { epoch, decision: "continue: the connection was lost", process: context.process },
      },
    ],
  });
  switch (found.kind) {
    case "attached":
      if (isOver(live)) {
        found.link.close();
        return true;
      }
      journal.renew(found.lease);
      anchorAnswered(live);
      adopt(live, found.link, true);
      refuseGate(live, found.link);
      return !connectionLost(live);
    case "unwritable":
      context.report({
        runId,
        message: `run ${runId} can be stopped, but not steered: the store refuses its lease`,
        cause: found.error,
      });
      if (isOver(live)) found.observer.close();
      else adopt(live, found.observer, false);
      return false;
    case "replaced":
      robbed(live, found.by);
      return true;
    case "ended-elsewhere":
      stopEndedElsewhere(context, found.observer);
      letGo(live, new LeaseLost(runId, journal.lease.epoch));
      return true;
    case "unreachable":
      if (found.lease !== null) journal.renew(found.lease);
      await handleUnresponsive(live);
      return isOver(live);
    case "silent": {
      if (found.lease !== null) journal.renew(found.lease);
      const after = await aftermath(context, live.traces, () => isOver(live));
      // It makes its socket anew, if it runs.
      if (after.kind === "anchor-alive" && tries >= defaults.reattachTries) await handleUnresponsive(live);
      return concludeAftermath(live, after) || isOver(live);
    }
  }
}

/** The store does not count it as ours: it has forgotten it, or it has been taken over, or ended. */
export async function missed(live: LiveRun): Promise<void> {
  const { context, facts } = live;
  if (await putBack(context, facts.runId)) return;
  const record = await context.store.getRun(facts.runId);
  if (record === null || record.state === "exited") robbed(live, null);
  else if (record.ownerInstanceId !== context.instanceId) robbed(live, record.ownerInstanceId);
}

/** Finds out whether a newer epoch means that this process lost one run or the whole instance. */
export async function findTaker({ context, facts }: LiveRun, hadEpoch: number): Promise<void> {
  const record = await context.store.getRun(facts.runId);
  if (record !== null && (await takenByAnotherProcess(context, record, hadEpoch)))
    context.incarnation.lose(`it has taken run ${facts.runId} under a newer epoch`);
}

/** Somebody else has taken the run over, as the rules allow: nothing more is done here, and it is said why. */
export function robbed(live: LiveRun, by: string | null): void {
  if (isOver(live)) return;
  if (by === live.context.instanceId)
    return live.context.incarnation.lose(`it has taken run ${live.facts.runId} under a newer epoch`);
  const error = new LeaseLost(live.facts.runId, live.journal.lease.epoch, by);
  live.context.report({ runId: live.facts.runId, message: error.message, cause: error });
  letGo(live, error);
}

/** An anchor that has lost its first owner before GO must never execute; whoever comes next only sees to that. */
export function refuseGate(live: LiveRun, link: AnchorLink): void {
  if (link.welcome.phase !== "gated") return;
  link.stop({ reason: "spawn-error", actor: live.context.actor, requestId: "", graceMs: 0 });
}

/** The record has an end, so its tree must have one too. */
export function stopEndedElsewhere(context: Context, observer: AnchorLink): void {
  observer.stop({ reason: "lost", actor: context.actor, requestId: "", graceMs: null });
  observer.close();
}

/** The events that waited in a link are heard while it is adopted: its end may be among them. */
function connectionLost(live: LiveRun): boolean {
  return live.link === null && !isOver(live);
}

function pauseAfter(live: LiveRun, tries: number): number {
  const { runId } = live.facts;
  if (tries === defaults.reattachTries) {
    const message = `run ${runId}: its anchor lives but does not answer (stopped, or starved); asking again every ${defaults.storeRetryMaxMs} ms`;
    live.context.report({ runId, message, cause: null });
  }
  return Math.min(defaults.reattachPauseMs * 2 ** tries, defaults.storeRetryMaxMs);
}
