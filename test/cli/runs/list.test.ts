import picocolors from "picocolors";
import { describe, expect, test } from "vitest";
import { listLines } from "../../../src/cli/runs/list.js";
import { statusOf } from "../../../src/cli/runs/status.js";
import { widthOf } from "../../../src/cli/runs/table.js";
import { END_REASONS } from "../../../src/store/run-record.js";
import { sampleExit, sampleRecord } from "../sample-record.js";

const plain = picocolors.createColors(false);

describe("the list of runs", () => {
  test("tells run, status, times, pid and command", () => {
    const records = [
      sampleRecord({ state: "running", exit: null, endedAt: null, emptiness: null }),
      sampleRecord({ runId: "run_b", exit: { ...sampleExit, code: 3 } }),
      sampleRecord({
        runId: "run_c",
        state: "starting",
        exit: null,
        startedAt: null,
        endedAt: null,
        root: null,
      }),
    ];
    expect(listLines(records, 62_000, null, plain)).toEqual([
      "RUN               STATUS    CREATED   TIME  PID  COMMAND",
      "run_0123456789ab  running   1m1s ago  1m    101  npm test",
      "run_b             exit 3    1m1s ago  2s    -    npm test",
      "run_c             starting  1m1s ago  -     -    npm test",
    ]);
  });

  test("fits the terminal", () => {
    const [, line] = listLines([sampleRecord({ command: "x".repeat(500) })], 62_000, 60, plain);
    expect(widthOf(line ?? "")).toBe(60);
    expect(line).toMatch(/x…$/);
  });

  test("cannot be forged by a command", () => {
    const [, line] = listLines([sampleRecord({ command: "\x1b[2J\nrun_fake  exit 0" })], 62_000, null, plain);
    expect(line).not.toMatch(/[\x00-\x1f]/);
  });

  test("colours the status and nothing else", () => {
    const coloured = picocolors.createColors(true);
    const [, line] = listLines([sampleRecord()], 62_000, null, coloured);
    expect(line).toBe(`run_0123456789ab${coloured.green("  exit 0")}  1m1s ago  2s    -    npm test`);
  });
});

test("every reason has a status", () => {
  for (const reason of END_REASONS)
    expect(statusOf({ state: "exited", exit: { ...sampleExit, reason } })).toMatch(/^\S.*$/);
});
