import type { Welcome } from "../../anchor/host-interface.js";
import { deferred } from "../../async/deferred.js";
import { defaults } from "../../defaults.js";
import type { RunRecord } from "../../model/run.js";
import type { Lease } from "../../store/runs/contract.js";
import { restoreIfRolledBack } from "../lease/restore-record.js";
import { Deadlines } from "../run/deadlines.js";
import { detachRun } from "../run/stop-and-detach.js";
import { sendStop } from "../run/request-stop.js";
import {
  initialAnchorLiveness,
  type LiveRun,
  runEventBase,
  type RunFacts,
  type SupervisorContext,
} from "../run/live-run.js";
import { OutputRanges, STREAMS } from "../run/output-ranges.js";
import { LastOutput } from "../run/last-output.js";
import { resumeReadiness } from "../run/readiness.js";
import { runAddressOf } from "../run/recorded-identity.js";
import { initialState, step } from "../run/state-machine.js";
import { Stdin } from "../run/stdin.js";
import { RunWriteQueue, type WriteQueueObserver } from "../run/store-write-queue.js";
import { onAnchorEvent } from "./anchor-events.js";
import { detectOtherIncarnation } from "./lease-lost.js";

/** Creates the state of one run, without a connection. */
export function createLiveRun(
  context: SupervisorContext,
  facts: RunFacts,
  lease: Lease,
  record: RunRecord,
  { stdinAt = 0, recorded = true }: { readonly stdinAt?: number; readonly recorded?: boolean } = {},
): LiveRun {
  const { runId } = facts;
  const observer: WriteQueueObserver = {
    onRetry: (error) => {
      const message = `run ${runId}: a write to the store failed; the run is unaffected, and the write will be repeated`;
      context.report({ runId, message, cause: error });
    },
    onRolledBack: () => restoreIfRolledBack(context, runId),
    onReplaced: (error) => {
      context.report({ runId, message: error.message, cause: error });
      detachRun(live, error);
      context.track(runId, detectOtherIncarnation(live, error.epoch));
    },
  };
  const live: LiveRun = {
    context,
    facts,
    writeQueue: new RunWriteQueue(context.store, context.storeBreaker, lease, record, observer, {
      held: !recorded,
      // The changes of an attached run are written at once.
      waitForEnd: recorded ? null : { clock: context.clock, ms: context.waitForEndMs },
    }),
    recorded: deferred(),
    deadlines: new Deadlines(context.clock, facts.deadlines, (stop) => sendStop(live, stop)),
    stdin: new Stdin(runId, stdinAt),
    outputRanges: new OutputRanges(),
    lastOutput: new LastOutput(context.clock, (at) => recordOutput(live, at)),
    started: deferred(),
    endKnown: deferred(),
    ended: deferred(),
    listener: (link, event) => onAnchorEvent(live, link, event),
    state: initialState,
    startedAt: null,
    link: null,
    isOwner: false,
    tier: null,
    hasCaller: false,
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
  if (recorded) live.recorded.resolve();
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

/** Restores a run from its record; `welcome` is null when no anchor answered. */
export function restoreLiveRun(
  context: SupervisorContext,
  record: RunRecord,
  lease: Lease,
  welcome: Welcome | null,
): LiveRun {
  const { runId, leaseId, command, policy, deadlines, service, root, anchor, boundary } = record;
  const live = createLiveRun(
    context,
    {
      runId,
      address: runAddressOf(record),
      leaseId,
      command,
      attempt: null,
      policy,
      deadlines,
      service,
      // The record does not say whether the streams use back-pressure. If they might, the no-output deadline is left to
      // the anchor, which knows and enforces it a little later.
      withholdAt: { stdout: defaults.spoolBytes, stderr: defaults.spoolBytes },
    },
    lease,
    record,
    { stdinAt: welcome?.stdinAccepted ?? 0 },
  );
  const { hostId, bootId, pidNamespace, timeNamespace } = record;
  const machine = { hostId, bootId, pidNamespace, timeNamespace };
  live.recordedIdentity = {
    ...live.recordedIdentity,
    root,
    anchor,
    boundary,
    machine,
    anchorPath: record.anchorPath,
  };
  live.tier = record.tier;
  if (root !== null) live.state = step(live.state, { type: "gated", root });
  live.startedAt =
    record.startedAt === null
      ? // The supervisor died between GO and its commit: the record was last updated just before GO.
        { at: record.updatedAt, recorded: false }
      : { at: record.startedAt, recorded: true };
  live.stopRecorded = record.state === "exiting";
  resumeReadiness(live);
  if (welcome !== null)
    for (const stream of STREAMS) live.outputRanges.setFirstOffset(stream, welcome[stream].acked);
  return live;
}
