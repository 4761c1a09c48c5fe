import type { StartSpec } from "../../../src/anchor/host-interface.js";
import { defaults } from "../../../src/defaults.js";
import { NO_LIMITS } from "../../../src/model/run.js";

/** A run with every field set, and a short owner-loss time, so that no process outlives a failing test for long. */
export function startSpec(
  runId: string,
  argv: readonly string[],
  change: Partial<StartSpec> = {},
): StartSpec {
  const spool = { boundBytes: defaults.spoolBytes, policy: "keep-newest" } as const;
  return {
    runId,
    epoch: 1,
    argv,
    env: { PATH: "/usr/bin:/bin", HOLDFAST_RUN_ID: runId },
    cwd: "/",
    umask: null,
    io: "pipe",
    size: { rows: defaults.rows, cols: defaults.cols },
    merge: false,
    stdin: "null",
    stdout: spool,
    stderr: spool,
    policy: {
      kind: "task",
      onEscape: "fail",
      graceMs: 2000,
      settleMs: defaults.settleMs,
      drainMs: defaults.drainMs,
      killReportMs: defaults.killReportMs,
      overallMs: null,
      noOutputMs: null,
      ownerLossMs: 300,
      backstopMs: defaults.backstopMs,
    },
    limits: NO_LIMITS,
    ...change,
  };
}
