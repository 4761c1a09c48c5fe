import { describe, expect, test } from "vitest";
import { WriteFailed } from "../../../src/cli/print/write-output.js";
import { type RunEndState, summarizeExit } from "../../../src/cli/run/exit-summary.js";
import type { Residue } from "../../../src/model/process.js";
import type { RunExit, RunRecord } from "../../../src/model/run.js";
import { sampleRunExit, sampleRunRecord } from "../../support/store/run-samples.js";

const leftover: Residue = { pid: 42, startTime: 1, kind: "detached", command: "sleep" };

function ended(
  exit: Partial<RunExit>,
  facts: Partial<RunRecord> = {},
  rest: Partial<RunEndState> = {},
): RunEndState {
  const record = sampleRunRecord({ exit: { ...sampleRunExit, ...exit }, ...facts });
  return { record, state: record.state, survivors: [], interrupt: null, writeFailure: null, ...rest };
}

const running = { state: "running", exit: null, emptiness: null } as const;

function failed(code: string): WriteFailed {
  return new WriteFailed(1, Object.assign(new Error(`${code}: write`), { code }));
}

describe("the last line and the exit code of `holdfast run`", () => {
  test.each<[string, RunEndState, number, string | null]>([
    ["a plain end: no message", ended({ code: 3 }), 3, null],
    [
      "leftovers of a background job",
      ended({ code: 3 }, { residue: [leftover], residueCount: 1 }),
      3,
      "cleaned up 1 leftover process: sleep (pid 42, detached)",
    ],
    [
      "many leftovers: some by name, all counted",
      ended({}, { residue: Array.from({ length: 5 }, () => leftover), residueCount: 70 }),
      0,
      "cleaned up 70 leftover processes: sleep (pid 42, detached), sleep (pid 42, detached), sleep (pid 42, detached), 67 more",
    ],
    [
      "an escape",
      ended({ reason: "ownership-escape" }, { residue: [leftover], residueCount: 1 }),
      120,
      "the command left detached processes behind (--on-escape sweep accepts that); cleaned up 1 leftover process: sleep (pid 42, detached)",
    ],
    [
      "the overall timeout",
      ended({ reason: "overall-timeout" }, { deadlines: { overallMs: 90_000, noOutputMs: null } }),
      124,
      "stopped: still running after 1m30s (--timeout)",
    ],
    [
      "the no-output timeout",
      ended({ reason: "no-output-timeout" }, { deadlines: { overallMs: null, noOutputMs: 500 } }),
      124,
      "stopped: no output for 500ms (--no-output-timeout)",
    ],
    [
      "the memory limit",
      ended(
        { reason: "signal", code: null, signal: "SIGKILL", limitHit: "memory" },
        { limits: { memoryBytes: 67_108_864, pids: null, cpus: null } },
      ),
      137,
      "ended by signal SIGKILL: over its memory limit of 64 MiB (--memory)",
    ],
    [
      "the memory limit, hit by another process of the run",
      ended({ code: 1, limitHit: "memory" }, { limits: { memoryBytes: 67_108_864, pids: null, cpus: null } }),
      1,
      "a process of it was killed: over its memory limit of 64 MiB (--memory)",
    ],
    [
      "the limit of tasks",
      ended({ code: 2, limitHit: "pids" }, { limits: { memoryBytes: null, pids: 10, cpus: null } }),
      2,
      "refused more processes and threads: at its limit of 10 (--pids)",
    ],
    [
      "a stop by another actor, with its name",
      ended({ reason: "manual-cancel", actor: "signal:TERM pid:7", code: null, signal: "SIGTERM" }),
      143,
      "stopped by signal:TERM pid:7",
    ],
    [
      "a lost run",
      ended(
        { reason: "lost", code: null, detail: "its anchor was killed by SIGKILL" },
        { emptiness: "unproven" },
      ),
      125,
      "the run was lost: its anchor was killed by SIGKILL; it is not proven that no process is left",
    ],
    [
      "Ctrl-C: 130 whatever the exit code of the command, and no message",
      ended({ reason: "manual-cancel", code: 0 }, {}, { interrupt: "SIGINT" }),
      130,
      null,
    ],
    [
      "TERM, with leftovers",
      ended(
        { reason: "manual-cancel", code: 0 },
        { residue: [leftover], residueCount: 1 },
        { interrupt: "SIGTERM" },
      ),
      143,
      "cleaned up 1 leftover process: sleep (pid 42, detached)",
    ],
    [
      "Ctrl-C after the command has ended by itself",
      ended({ code: 5 }, {}, { interrupt: "SIGINT" }),
      5,
      null,
    ],
    [
      "a reader that has left: as in a shell pipeline, no message",
      ended(
        { reason: "manual-cancel" },
        { residue: [leftover], residueCount: 1 },
        { writeFailure: failed("EPIPE") },
      ),
      141,
      null,
    ],
    [
      "a terminal that was hung up: the same",
      ended({ reason: "manual-cancel" }, {}, { writeFailure: failed("EIO") }),
      141,
      null,
    ],
    [
      "a full disk: a message",
      ended({ reason: "manual-cancel" }, {}, { writeFailure: failed("ENOSPC") }),
      125,
      "cannot write stdout: ENOSPC: write; the command was stopped",
    ],
    [
      "a reader that left after the command had ended",
      ended({ code: 0 }, {}, { writeFailure: failed("EPIPE") }),
      141,
      null,
    ],
    [
      "a reader that left a command that failed: the exit code of the command",
      ended({ code: 3 }, {}, { writeFailure: failed("EPIPE") }),
      3,
      null,
    ],
    [
      "a full disk, and a command that ended before it was cancelled",
      ended({ code: 0 }, {}, { writeFailure: failed("ENOSPC") }),
      125,
      "cannot write stdout: ENOSPC: write; the command has ended, but its output is incomplete",
    ],
    [
      "processes that cannot be killed",
      ended(
        {},
        { state: "exiting", exit: null, emptiness: null },
        { survivors: [{ pid: 9, startTime: 1, kind: "unkillable", command: "dd" }] },
      ),
      125,
      "could not kill 9 dd (unkillable); the anchor of run run_0123456789ab stays and keeps trying",
    ],
    [
      "a user who does not wait",
      ended({}, { state: "exiting", exit: null, emptiness: null }, { interrupt: "SIGINT" }),
      130,
      "left run run_0123456789ab to its anchor, which continues to terminate it",
    ],
    [
      "a user who does not wait, when the anchor has the stop and the record does not show it",
      ended({}, running, { state: "exiting", interrupt: "SIGINT" }),
      130,
      "left run run_0123456789ab to its anchor, which continues to terminate it",
    ],
    [
      "a user who does not wait, when neither gateway nor anchor answered",
      ended({}, running, { interrupt: "SIGINT" }),
      130,
      "left run run_0123456789ab, which may continue: neither its gateway nor its anchor answered. `holdfast runs stop run_0123456789ab` tries again",
    ],
    [
      "a run that is gone before it was recorded",
      ended({}, running, { state: "exited", interrupt: "SIGINT" }),
      130,
      "run run_0123456789ab is gone; the next gateway records its end",
    ],
  ])("%s", (_, ending, code, message) => {
    expect(summarizeExit(ending)).toEqual({ code, message });
  });
});
