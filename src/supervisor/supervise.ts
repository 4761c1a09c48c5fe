import { LeaseLost } from "../errors.js";
import type { RunRecord } from "../store/run-record.js";
import type { Lease } from "../store/store.js";
import { Activity } from "./activity.js";
import { onAnchorEvent } from "./anchor-events.js";
import { sendStop } from "./cancel.js";
import type { Context } from "./context.js";
import { newLiveness } from "./anchor-liveness.js";
import { Deadlines } from "./deadlines.js";
import { deferred } from "./deferred.js";
import { Journal } from "./journal.js";
import { letGo } from "./let-go.js";
import { eventFacts, type LiveRun, type RunFacts } from "./live-run.js";
import { putBack } from "./put-back.js";
import { OutputRanges } from "./output-ranges.js";
import { findTaker } from "./regain.js";
import { newborn } from "./run-state.js";
import { Stdin } from "./stdin.js";

/** Everything that works for one run, wired up. It has no connection yet. */
export function supervise(
  context: Context,
  facts: RunFacts,
  lease: Lease,
  record: RunRecord,
  stdinAt = 0,
): LiveRun {
  const { runId } = facts;
  const live: LiveRun = {
    context,
    facts,
    journal: new Journal(context.store, context.gate, lease, record, {
      failing: (error) => {
        const message = `run ${runId}: the store refuses to be written; the run is unaffected, the write will be repeated`;
        context.report({ runId, message, cause: error });
      },
      forgotten: () => putBack(context, runId),
      ousted: (error) => {
        context.report({ runId, message: error.message, cause: error });
        letGo(live, error);
        if (error instanceof LeaseLost) context.track(runId, findTaker(live, error.epoch));
      },
    }),
    deadlines: new Deadlines(context.clock, facts.deadlines, (stop) => sendStop(live, stop)),
    stdin: new Stdin(runId, stdinAt),
    ranges: new OutputRanges(),
    activity: new Activity(context.clock, (at) => noteOutput(live, at)),
    started: deferred(),
    concluded: deferred(),
    ended: deferred(),
    listener: (link, event) => onAnchorEvent(live, link, event),
    state: newborn,
    startedAt: null,
    link: null,
    owner: false,
    tier: null,
    service: facts.service,
    toldService: null,
    adopting: null,
    signalling: null,
    looks: new Map(),
    traces: {
      run: facts.address,
      leaseId: facts.leaseId,
      machine: context.host.machine,
      anchor: null,
      root: null,
      boundary: null,
      graceMs: facts.policy.graceMs,
      anchorPath: context.host.anchorPath,
    },
    liveness: newLiveness(context.clock.now()),
    firstStop: null,
    failure: null,
    asked: null,
    owed: [],
    owedHanded: null,
    stopNoted: false,
    survivorsNoted: false,
    exitingNote: null,
    withheld: { stdout: false, stderr: false },
    lost: { stdout: 0, stderr: 0 },
    size: null,
    descendants: 0,
    regaining: false,
    finalizing: false,
    letGo: null,
    followers: 0,
    witnessed: false,
    discarded: false,
    ignoreSignal: null,
  };
  context.live.set(runId, live);
  context.leases.taken();
  context.anchors.soon();
  return live;
}

function noteOutput(live: LiveRun, at: number): void {
  const data = { stdout: live.ranges.range("stdout").end, stderr: live.ranges.range("stderr").end };
  live.journal.note({ to: "output", at }, [{ ...eventFacts(live, at), type: "output", data }]);
}
