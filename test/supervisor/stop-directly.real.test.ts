import { describe, expect, test } from "vitest";
import { findAnchor } from "../../src/anchor/find.js";
import { observeNatively } from "../../src/anchor/native-host.js";
import { defaults } from "../../src/defaults.js";
import { observeMachineIdentity } from "../../src/store/machine.js";
import type { RunRecord } from "../../src/store/run-record.js";
import { systemClock } from "../../src/supervisor/clock.js";
import { stopDirectly, type DirectOutcome } from "../../src/supervisor/stop-directly.js";
import { until } from "../until.js";
import { Field } from "../cli/field.js";
import { bystander, processesOf } from "./real-supervisor.js";
import { isDead, silence, SILENCES, stateOf, whyNotSilenced, type Silence } from "./silent-anchor.js";

const TREE = "setsid sleep 2801 & sleep 2802 & echo up; wait";
const stop = { reason: "manual-cancel", actor: "test", requestId: "r1", graceMs: null };

/** A run whose supervisor was killed, so that nobody but its anchor looks after it. */
async function abandoned(field: Field, script = TREE): Promise<{ home: string; record: RunRecord }> {
  const [runId = ""] = await field.leave([script]);
  return { home: field.home, record: await field.record(runId) };
}

async function stopIt(home: string, record: RunRecord, known: RunRecord | null): Promise<DirectOutcome> {
  await using host = observeNatively(home, await observeMachineIdentity(home), findAnchor());
  const run = { instanceId: record.originInstanceId, runId: record.runId };
  const began = performance.now();
  const outcome = await stopDirectly({ host, clock: systemClock }, { run, record: known }, stop);
  expect(performance.now() - began).toBeLessThan(defaults.stopBoundMs);
  return outcome;
}

function anchorPid({ anchor }: RunRecord): number {
  if (anchor === null) throw new Error("its anchor is not on record");
  return anchor.pid;
}

const DETAILS: Readonly<Record<Silence, RegExp>> = {
  SIGSTOP: /manual-cancel by test, proven empty/,
  debugger:
    /its anchor did not answer; \d processes were ended [a-z ]+, then the anchor was killed; proven empty/,
};

describe.each(SILENCES)("an anchor silenced by %s", (how) => {
  test.each(["with", "without"])("a run is stopped %s its record", async (which) => {
    const whyNot = whyNotSilenced(how);
    if (whyNot !== null) return expect(whyNot).toMatch(/compiler/);
    bystander("sleep", "2802");
    await using field = await Field.open();
    const { home, record } = await abandoned(field);
    await silence(anchorPid(record), how);
    const outcome = await stopIt(home, record, which === "with" ? record : null);
    expect(outcome).toMatchObject({ outcome: "gone", detail: expect.stringMatching(DETAILS[how]) });
    expect(await processesOf(record.runId)).toEqual([]);
    await until("its anchor is dead", () => isDead(anchorPid(record)));
    // A launcher waits for an anchor that a debugger has the death of, until it is silent for long enough.
    await field.nothingLeft(20_000);
  });
});

test("a process that only has the number of the anchor on record is not continued or ended", async () => {
  const stranger = bystander("sleep", "2802");
  process.kill(stranger.pid ?? 0, "SIGSTOP");
  await until("it is stopped", () => stateOf(stranger.pid ?? 0) === "T");
  await using field = await Field.open();
  const { home, record } = await abandoned(field, "echo up; sleep 2801");
  const identity = { pid: stranger.pid ?? 0, startTime: record.anchor?.startTime ?? 0, uniqueId: "1" };
  await silence(anchorPid(record), "SIGSTOP");
  const outcome = await stopIt(home, record, { ...record, anchor: identity });
  expect(outcome.outcome).toMatch(/unknown|gone/);
  expect(stateOf(stranger.pid ?? 0)).toBe("T");
  process.kill(anchorPid(record), "SIGCONT");
  await stopIt(home, record, record);
});
