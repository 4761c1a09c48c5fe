import type { AnchorLink } from "../../anchor/host-interface.js";
import { defaults } from "../../defaults.js";
import { LeaseLost } from "../../errors.js";
import { resolveDeadAnchor } from "../end/without-anchor.js";
import { finalizeDeadAnchor } from "../end/finalize.js";
import { acquireRun } from "../lease/acquire.js";
import {
  isInactive,
  type LiveRun,
  recordAnchorAnswer,
  runEventBase,
  type SupervisorContext,
} from "../run/live-run.js";
import { detachRun } from "../run/stop-and-detach.js";
import { bindLink, keepGateClosed } from "./bind-link.js";
import { onLeaseStolen } from "./lease-lost.js";
import { handleUnresponsiveAnchor } from "./unresponsive-anchor.js";

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
