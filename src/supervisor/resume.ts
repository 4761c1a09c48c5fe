import type { StreamName, Welcome } from "../anchor/host.js";
import { defaults } from "../defaults.js";
import type { RunRecord } from "../store/run-record.js";
import type { Lease } from "../store/store.js";
import type { Context } from "./context.js";
import { addressOf } from "./reconcile/look.js";
import type { LiveRun } from "./live-run.js";
import { resumeReadiness } from "./readiness.js";
import { step } from "./run-state.js";
import { supervise } from "./supervise.js";

const STREAMS: readonly StreamName[] = ["stdout", "stderr"];

/** A run from its record, to be gone on with; `welcome` is null when no anchor answered. */
export function resume(context: Context, record: RunRecord, lease: Lease, welcome: Welcome | null): LiveRun {
  const { runId, leaseId, command, policy, deadlines, service, root, anchor, boundary } = record;
  const live = supervise(
    context,
    {
      runId,
      address: addressOf(record),
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
  live.traces = { ...live.traces, root, anchor, boundary, machine, anchorPath: record.anchorPath };
  live.tier = record.tier;
  if (root !== null) live.state = step(live.state, { type: "gated", root });
  live.startedAt =
    record.startedAt === null
      ? // Killed between GO and its commit: the record was last touched when the gate was ready, a moment before.
        { at: record.updatedAt, noted: false }
      : { at: record.startedAt, noted: true };
  live.stopNoted = record.state === "exiting";
  resumeReadiness(live);
  if (welcome !== null) for (const stream of STREAMS) live.ranges.continueFrom(stream, welcome[stream].acked);
  return live;
}
