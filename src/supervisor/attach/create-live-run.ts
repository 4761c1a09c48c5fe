import { LeaseLost } from "../../errors.js";
import type { RunRecord } from "../../model/run.js";
import type { Lease } from "../../store/store.js";
import { OutputActivity } from "../run/output-activity.js";
import { onAnchorEvent } from "./anchor-events.js";
import { sendStop } from "../run/request-stop.js";
import type { SupervisorContext } from "../context.js";
import { initialAnchorLiveness } from "../anchor-liveness.js";
import { Deadlines } from "../run/deadlines.js";
import { deferred } from "../../async/deferred.js";
import { RunWriteQueue } from "../run/write-queue.js";
import { detachRun } from "../run/lifecycle.js";
import { runEventBase, type LiveRun, type RunFacts } from "../run/live-run.js";
import { restoreIfRolledBack } from "../lease/restore-record.js";
import { OutputRanges } from "../run/output-ranges.js";
import { detectOtherIncarnation } from "./reattach.js";
import { initialState } from "../run/state.js";
import { Stdin } from "../run/stdin.js";

/** Everything that works for one run, wired up. It has no connection yet. */
export function createLiveRun(
  context: SupervisorContext,
  facts: RunFacts,
  lease: Lease,
  record: RunRecord,
  stdinAt = 0,
): LiveRun {
  const { runId } = facts;
  const live: LiveRun = {
    context,
    facts,
    writeQueue: new RunWriteQueue(context.store, context.storeBreaker, lease, record, {
      onRetry: (error) => {
        const message = `run ${runId}: the store refuses to be written; the run is unaffected, the write will be repeated`;
        context.report({ runId, message, cause: error });
      },
      onRolledBack: () => restoreIfRolledBack(context, runId),
      onReplaced: (error) => {
        context.report({ runId, message: error.message, cause: error });
        detachRun(live, error);
        if (error instanceof LeaseLost) context.track(runId, detectOtherIncarnation(live, error.epoch));
      },
    }),
    deadlines: new Deadlines(context.clock, facts.deadlines, (stop) => sendStop(live, stop)),
    stdin: new Stdin(runId, stdinAt),
    outputRanges: new OutputRanges(),
    activity: new OutputActivity(context.clock, (at) => recordOutput(live, at)),
    started: deferred(),
    endKnown: deferred(),
    ended: deferred(),
    listener: (link, event) => onAnchorEvent(live, link, event),
    state: initialState,
    startedAt: null,
    link: null,
    isOwner: false,
    tier: null,
    service: facts.service,
    serviceAck: null,
    pendingAdoption: null,
    pendingSignal: null,
    memberRequests: new Map(),
    recordedIdentity: {
      run: facts.address,
      leaseId: facts.leaseId,
      machine: context.host.machine,
      anchor: null,
      root: null,
      boundary: null,
      graceMs: facts.policy.graceMs,
      anchorPath: context.host.anchorPath,
    },
    anchorLiveness: initialAnchorLiveness(context.clock.now()),
    firstStop: null,
    failure: null,
    requestedStop: null,
    pendingStops: [],
    pendingStopsSent: null,
    stopRecorded: false,
    survivorsRecorded: false,
    exitingTimer: null,
    withheld: { stdout: false, stderr: false },
    lostBytes: { stdout: 0, stderr: 0 },
    size: null,
    descendants: 0,
    reattaching: false,
    finalizing: false,
    detachedBy: null,
    followers: 0,
    outputSeen: false,
    discarded: false,
    removeAbortListener: null,
  };
  context.runs.set(runId, live);
  context.leases.onLeaseAcquired();
  context.anchorMonitor.checkSoon();
  return live;
}

function recordOutput(live: LiveRun, at: number): void {
  const data = {
    stdout: live.outputRanges.range("stdout").end,
    stderr: live.outputRanges.range("stderr").end,
  };
  live.writeQueue.enqueue({ to: "output", at }, [{ ...runEventBase(live, at), type: "output", data }]);
}
