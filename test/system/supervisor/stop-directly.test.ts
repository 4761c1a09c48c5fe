import { describe, expect, test } from "vitest";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import { openNativeObserver } from "../../../src/anchor/native-observer.js";
import { systemClock } from "../../../src/async/clock.js";
import { defaults } from "../../../src/defaults.js";
import { observeMachineIdentity } from "../../../src/home/machine-identity.js";
import type { RunRecord } from "../../../src/model/run.js";
import { type DirectStopOutcome, stopDirectly } from "../../../src/supervisor/stop/stop.js";
import { RecoveryFixture } from "../../support/cli/recovery-fixture.js";
import { scaled } from "../../support/scale.js";
import { findProcessesOfRun, plantLookalike } from "../../support/supervisor/real-supervisor.js";
import {
  isDead,
  processState,
  silenceAnchor,
  SILENCING_METHODS,
  type SilencingMethod,
  whyNotSilenceable,
} from "../../support/supervisor/silent-anchor.js";
import { waitFor } from "../../support/wait-for.js";

const TREE = "setsid sleep 2801 & sleep 2802 & echo up; wait";
const stop = { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: null };

/** A run whose supervisor was killed: only its anchor is left. */
async function abandoned(
  fixture: RecoveryFixture,
  script = TREE,
): Promise<{ home: string; record: RunRecord }> {
  const [runId = ""] = await fixture.leaveRuns([script]);
  return { home: fixture.home, record: await fixture.record(runId) };
}

async function stopIt(home: string, record: RunRecord, known: RunRecord | null): Promise<DirectStopOutcome> {
  await using host = openNativeObserver(home, await observeMachineIdentity(home), findAnchorBinary());
  const run = { instanceId: record.originInstanceId, runId: record.runId };
  const began = performance.now();
  const outcome = await stopDirectly({ host, clock: systemClock }, { run, record: known }, stop);
  expect(performance.now() - began).toBeLessThan(scaled(defaults.stopBoundMs));
  return outcome;
}

function anchorPid({ anchor }: RunRecord): number {
  if (anchor === null) throw new Error("its anchor is not on record");
  return anchor.pid;
}

const DETAILS: Readonly<Record<SilencingMethod, RegExp>> = {
  SIGSTOP: /manual-cancel by test, proven empty/,
  debugger:
    /its anchor did not answer; \d processes were killed [a-z ]+, then the anchor was killed; proven empty/,
};

describe.each(SILENCING_METHODS)("an anchor silenced by %s", (how) => {
  test.each(["with", "without"])("a run is stopped %s its record", async (which) => {
    const whyNot = whyNotSilenceable(how);
    if (whyNot !== null) return expect(whyNot).toMatch(/compiler/);
    plantLookalike("sleep", "2802");
    await using fixture = await RecoveryFixture.open();
    const { home, record } = await abandoned(fixture);
    await using _silenced = await silenceAnchor(anchorPid(record), how);
    const outcome = await stopIt(home, record, which === "with" ? record : null);
    expect(outcome).toMatchObject({ outcome: "gone", detail: expect.stringMatching(DETAILS[how]) });
    expect(await findProcessesOfRun(record.runId)).toEqual([]);
    await waitFor("its anchor is dead", () => isDead(anchorPid(record)));
    // The launcher waits for an anchor that a debugger holds, until the anchor was silent for long enough.
    await fixture.expectNoProcesses(20_000);
  });
});

test("a process that only has the number of the anchor on record is not continued or ended", async () => {
  const stranger = plantLookalike("sleep", "2802");
  process.kill(stranger.pid ?? 0, "SIGSTOP");
  await waitFor("it is stopped", () => processState(stranger.pid ?? 0) === "T");
  await using fixture = await RecoveryFixture.open();
  const { home, record } = await abandoned(fixture, "echo up; sleep 2801");
  const identity = { pid: stranger.pid ?? 0, startTime: record.anchor?.startTime ?? 0, uniqueId: "1" };
  await using silenced = await silenceAnchor(anchorPid(record), "SIGSTOP");
  const outcome = await stopIt(home, record, { ...record, anchor: identity });
  expect(outcome.outcome).toMatch(/unknown|gone/);
  expect(processState(stranger.pid ?? 0)).toBe("T");
  await silenced.release();
  await stopIt(home, record, record);
});
