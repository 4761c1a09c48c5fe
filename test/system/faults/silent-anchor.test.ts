import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { RunEventType } from "../../../src/model/run-event.js";
import type { RunRecord } from "../../../src/model/run.js";
import {
  isDead,
  silenceAnchor,
  SILENCING_METHODS,
  processState,
  whyNotSilenceable,
} from "../../support/supervisor/silent-anchor.js";
import { findByCommandLine } from "../../support/live-processes.js";
import { RecoveryFixture } from "../../support/cli/recovery-fixture.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

/** A silent anchor is noticed after two seconds. */
const HURRIED = { anchorAskMs: 2_000 };

const TREE = "setsid sleep 2811 & sleep 2812 & wait";

function anchorPid({ anchor }: RunRecord): number {
  if (anchor === null) throw new Error("its anchor is not on record");
  return anchor.pid;
}

async function begin(fixture: RecoveryFixture, ...args: readonly string[]): Promise<RunRecord> {
  const { stdout, stderr } = await fixture.holdfast("run", "-d", ...args);
  expect(stdout, stderr).toMatch(/^run_\w{12}\n$/);
  return fixture.record(stdout.trim());
}

async function eventTypes(fixture: RecoveryFixture, { runId }: RunRecord): Promise<RunEventType[]> {
  return (await fixture.events(runId)).map(({ type }) => type);
}

async function sawSilence(fixture: RecoveryFixture, record: RunRecord): Promise<void> {
  await waitFor(
    "the silence is on record",
    async () => (await eventTypes(fixture, record)).includes("anchor-silent"),
    HURRIED.anchorAskMs + defaults.anchorAnswerMs + 15_000,
  );
}

async function allGone(fixture: RecoveryFixture, { runId }: RunRecord, withinMs: number): Promise<void> {
  await waitFor(
    "its processes are gone",
    async () => (await fixture.membersOf(runId)).length === 0,
    withinMs,
  );
}

describe.concurrent("a command that stops its anchor", () => {
  const command = ["--timeout", "3s", "--", "bash", "-c", "kill -STOP $PPID; sleep 2801"];

  test("ends by its timeout under a gateway, with the silence on record", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.gateway({}, HURRIED);
    const record = await begin(fixture, ...command);
    expect(await fixture.waitForEnd(record.runId, 40_000)).toMatchObject({
      exit: { reason: "overall-timeout" },
      emptiness: "proven",
    });
    expect(await eventTypes(fixture, record)).toContain("anchor-silent");
    await allGone(fixture, record, 0);
  });

  test("ends by its timeout without a gateway, and the next one records it", async () => {
    await using fixture = await RecoveryFixture.open();
    const gateway = await fixture.gateway({}, HURRIED);
    const record = await begin(fixture, ...command);
    await gateway.kill();
    await allGone(fixture, record, 40_000);
    await fixture.gateway({}, HURRIED);
    const ended = await fixture.waitForEnd(record.runId, 40_000);
    expect(ended).toMatchObject({ exit: { reason: "overall-timeout" }, emptiness: "proven" });
    const silences = (await fixture.events(record.runId)).filter(({ type }) => type === "anchor-silent");
    expect(silences.length).toBeGreaterThan(0);
  });
});

describe.concurrent("an anchor held by a debugger", () => {
  const whyNot = whyNotSilenceable("debugger");

  test.skipIf(whyNot !== null)("does not keep its run from its timeout under a gateway", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.gateway({}, HURRIED);
    const record = await begin(fixture, "--timeout", "3s", "--", "bash", "-c", TREE);
    await using _held = await silenceAnchor(anchorPid(record), "debugger");
    const ended = await fixture.waitForEnd(record.runId, 40_000);
    expect(ended).toMatchObject({
      exit: { reason: "overall-timeout", detail: expect.stringContaining("its anchor did not answer") },
      emptiness: "proven",
    });
    await allGone(fixture, record, 0);
    expect(isDead(anchorPid(record))).toBe(true);
    expect(await eventTypes(fixture, record)).toEqual(
      expect.arrayContaining(["anchor-silent", "cancel", "exit"]),
    );
  });

  test.skipIf(whyNot !== null)("does not keep its run from its timeout without a gateway", async () => {
    await using fixture = await RecoveryFixture.open();
    const gateway = await fixture.gateway({}, HURRIED);
    const record = await begin(fixture, "--timeout", "3s", "--", "bash", "-c", TREE);
    await using _held = await silenceAnchor(anchorPid(record), "debugger");
    await gateway.kill();
    await allGone(fixture, record, 40_000);
    await fixture.gateway({}, HURRIED);
    const ended = await fixture.waitForEnd(record.runId, 40_000);
    expect(ended).toMatchObject({
      exit: { reason: "overall-timeout", actor: "launcher" },
      emptiness: "proven",
    });
    expect(await eventTypes(fixture, record)).toContain("anchor-silent");
  });

  test.skipIf(whyNot !== null)("is not ended, nor is its run, while no end is due", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.gateway({}, HURRIED);
    const record = await begin(fixture, "--", "bash", "-c", TREE);
    await using _held = await silenceAnchor(anchorPid(record), "debugger");
    await sawSilence(fixture, record);
    await setTimeout(3 * defaults.anchorContinueMs);
    expect(await fixture.membersOf(record.runId)).toHaveLength(3);
    expect(isDead(anchorPid(record))).toBe(false);
    expect((await fixture.holdfast("doctor")).stdout).toContain(record.runId);
    expect((await fixture.holdfast("process", "kill", record.runId)).code).toBe(0);
    await allGone(fixture, record, 0);
  });
});

test.concurrent("a stopped anchor is continued, and so is its command", async () => {
  await using fixture = await RecoveryFixture.open();
  await fixture.gateway({}, HURRIED);
  const record = await begin(fixture, "--", "bash", "-c", TREE);
  await using _held = await silenceAnchor(anchorPid(record), "SIGSTOP");
  await sawSilence(fixture, record);
  await waitFor("it answers", async () => (await eventTypes(fixture, record)).includes("anchor-answers"));
  expect(await fixture.membersOf(record.runId)).toHaveLength(3);
  expect(await fixture.holdfast("process", "kill", record.runId)).toMatchObject({ code: 0 });
  expect(await fixture.waitForEnd(record.runId)).toMatchObject({
    exit: { reason: "manual-cancel", detail: null },
  });
});

describe.concurrent.each(SILENCING_METHODS)("an anchor silenced by %s", (how) => {
  const whyNot = whyNotSilenceable(how);

  test.skipIf(whyNot !== null)("process kill ends its run within the bound", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.gateway({}, HURRIED);
    const record = await begin(fixture, "--", "bash", "-c", TREE);
    await using _held = await silenceAnchor(anchorPid(record), how);
    const began = performance.now();
    expect(await fixture.holdfast("process", "kill", record.runId)).toMatchObject({ code: 0 });
    expect(performance.now() - began).toBeLessThan(scaled(defaults.stopBoundMs + 3_000));
    await allGone(fixture, record, 0);
    expect(await fixture.waitForEnd(record.runId, 40_000)).toMatchObject({
      exit: { reason: "manual-cancel" },
      emptiness: "proven",
    });
  });

  test.skipIf(whyNot !== null)("gateway stop --runs terminate ends its run within the bound", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.gateway({}, HURRIED);
    const record = await begin(fixture, "--", "bash", "-c", TREE);
    await using _held = await silenceAnchor(anchorPid(record), how);
    const began = performance.now();
    expect(await fixture.holdfast("gateway", "stop", "--runs", "terminate")).toMatchObject({ code: 0 });
    expect(performance.now() - began).toBeLessThan(scaled(defaults.stopBoundMs + 3_000));
    await allGone(fixture, record, 0);
    expect(await fixture.record(record.runId)).toMatchObject({
      exit: { reason: "shutdown" },
      emptiness: "proven",
    });
  });
});

class WeakenedFixture extends RecoveryFixture {
  weaken = "";

  override get env(): NodeJS.ProcessEnv {
    return { ...super.env, HOLDFAST_ANCHOR_WEAKEN: this.weaken };
  }
}

describe.concurrent.each([
  ["with a cgroup", "", 2_820],
  ["without a cgroup", "cgroup", 2_830],
])("an anchor that also serves an adopted service, %s", (_name, weaken, firstNumber) => {
  const whyNot = whyNotSilenceable("debugger");

  /** A run of two sleepers, one of which is adopted as a service. The numbers tell them apart from those of other tests. */
  const open = async (number: number) => {
    const fixture = new WeakenedFixture(await mkdtemp(join(tmpdir(), "hf-")));
    fixture.weaken = weaken;
    await fixture.gateway({}, HURRIED);
    const script = `bash -c 'sleep ${number} & wait' & sleep ${number + 1} & wait`;
    const record = await begin(fixture, "--", "bash", "-c", script);
    const serviceProcess = () => findByCommandLine(`sleep\0${number}\0`)[0];
    const ownProcess = () => findByCommandLine(`sleep\0${number + 1}\0`)[0];
    await waitFor("both are alive", () => serviceProcess() !== undefined && ownProcess() !== undefined);
    const { stdout } = await fixture.holdfast("service", "adopt", String(serviceProcess()?.parentPid));
    return { fixture, record, service: stdout.trim(), serviceProcess, ownProcess };
  };

  test.skipIf(whyNot !== null)("is left alone when its other run is stopped", async () => {
    const { record, service, serviceProcess, ownProcess, ...opened } = await open(firstNumber);
    await using fixture = opened.fixture;
    await using anchor = await silenceAnchor(anchorPid(record), "debugger");
    const stopped = await fixture.holdfast("process", "kill", record.runId);
    const hasCgroup = (await fixture.record(record.runId)).boundary?.cgroup !== null;
    // Without a cgroup, the remaining processes cannot be distinguished from those of the service.
    expect(stopped.code === 0).toBe(hasCgroup);
    await waitFor("its own process is gone", () => ownProcess() === undefined);
    expect(await fixture.waitForEnd(record.runId)).toMatchObject({
      exit: { reason: "manual-cancel", detail: expect.stringContaining(`it also serves ${service}`) },
      emptiness: hasCgroup ? "proven" : "unproven",
    });
    expect(serviceProcess()).toBeDefined();
    expect(processState(anchorPid(record))).toBe("t");
    await anchor.release();
    expect((await fixture.holdfast("service", "stop", service)).code).toBe(0);
    expect(serviceProcess()).toBeUndefined();
  });

  test.skipIf(whyNot !== null)("is left alone when the service's anchor.json is damaged", async () => {
    const { record, service, serviceProcess, ...opened } = await open(firstNumber + 2);
    await using fixture = opened.fixture;
    const file = join(fixture.home, "instances", record.originInstanceId, "runs", service, "anchor.json");
    const facts = await readFile(file);
    await writeFile(file, "{");
    await using anchor = await silenceAnchor(anchorPid(record), "debugger");
    const { code, stderr } = await fixture.holdfast("process", "kill", record.runId);
    expect(code).not.toBe(0);
    expect(stderr).toContain("anchor.json is damaged");
    expect(serviceProcess()).toBeDefined();
    expect(processState(anchorPid(record))).toBe("t");
    await writeFile(file, facts);
    await anchor.release();
    expect((await fixture.holdfast("service", "stop", service)).code).toBe(0);
  });
});
