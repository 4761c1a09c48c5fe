import type { StreamName, Welcome } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import type { RunRecord } from "../model/run.js";
import type { Lease } from "../store/store.js";
import type { SupervisorContext } from "./context.js";
import { runAddressOf } from "./reconcile/evidence.js";
import type { LiveRun } from "./run/live-run.js";
import { resumeReadiness } from "./run/readiness.js";
import { step } from "./run/state.js";
import { createLiveRun } from "./attach/create-live-run.js";

const STREAMS: readonly StreamName[] = ["stdout", "stderr"];

/** A run from its record, to be gone on with; `welcome` is null when no anchor answered. */
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
      // Whether its streams hold the program back is not on record. Where they might, the no-output deadline is left
      // to the anchor, which knows: it acts on it a little later, and never wrongly.
      withholdAt: { stdout: defaults.spoolBytes, stderr: defaults.spoolBytes },
    },
    lease,
    record,
    welcome?.stdinAccepted ?? 0,
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
      ? // Killed between GO and its commit: the record was last touched when the gate was ready, a moment before.
        { at: record.updatedAt, recorded: false }
      : { at: record.startedAt, recorded: true };
  live.stopRecorded = record.state === "exiting";
  resumeReadiness(live);
  if (welcome !== null)
    for (const stream of STREAMS) live.outputRanges.setFirstOffset(stream, welcome[stream].acked);
  return live;
}
