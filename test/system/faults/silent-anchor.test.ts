import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterEach, describe, expect, test, vi } from "vitest";
import { defaults } from "../../../src/defaults.js";
import type { RunEventType } from "../../../src/model/run-event.js";
import type { RunRecord } from "../../../src/model/run.js";
import {
  isDead,
  silenceAnchor,
  SILENCING_METHODS,
  processState,
  whyNotSilenceable,
  type SilencingMethod,
} from "../../support/supervisor/silent-anchor.js";
import { findByCommandLine } from "../../support/live-processes.js";
import { RecoveryFixture } from "../../support/cli/recovery-fixture.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

vi.setConfig({ testTimeout: 120_000 });
afterEach(() => vi.unstubAllEnvs());

/** A silent anchor is noticed soon. */
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

describe("a command that stops its anchor", () => {
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

describe("an anchor held by a debugger", () => {
  const whyNot = whyNotSilenceable("debugger");

  test.skipIf(whyNot !== null)("does not keep its run from its timeout under a gateway", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.gateway({}, HURRIED);
    const record = await begin(fixture, "--timeout", "3s", "--", "bash", "-c", TREE);
    await using _held = await held(anchorPid(record), "debugger");
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
    await using _held = await held(anchorPid(record), "debugger");
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
    await using _held = await held(anchorPid(record), "debugger");
    await sawSilence(fixture, record);
    await setTimeout(3 * defaults.anchorContinueMs);
    expect(await fixture.membersOf(record.runId)).toHaveLength(3);
    expect(isDead(anchorPid(record))).toBe(false);
    expect((await fixture.holdfast("doctor")).stdout).toContain(record.runId);
    expect((await fixture.holdfast("process", "kill", record.runId)).code).toBe(0);
    await allGone(fixture, record, 0);
  });
});

test("a stopped anchor is continued, and its command goes on", async () => {
  await using fixture = await RecoveryFixture.open();
  await fixture.gateway({}, HURRIED);
  const record = await begin(fixture, "--", "bash", "-c", TREE);
  await using _held = await held(anchorPid(record), "SIGSTOP");
  await sawSilence(fixture, record);
  await waitFor("it answers", async () => (await eventTypes(fixture, record)).includes("anchor-answers"));
  expect(await fixture.membersOf(record.runId)).toHaveLength(3);
  expect(await fixture.holdfast("process", "kill", record.runId)).toMatchObject({ code: 0 });
  expect(await fixture.waitForEnd(record.runId)).toMatchObject({
    exit: { reason: "manual-cancel", detail: null },
  });
});

describe.each(SILENCING_METHODS)("an anchor silenced by %s", (how) => {
  const whyNot = whyNotSilenceable(how);

  test.skipIf(whyNot !== null)("process kill ends its run within the bound", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.gateway({}, HURRIED);
    const record = await begin(fixture, "--", "bash", "-c", TREE);
    await using _held = await held(anchorPid(record), how);
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
    await using _held = await held(anchorPid(record), how);
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

describe.each([
  ["with a cgroup", ""],
  ["without a cgroup", "cgroup"],
])("an anchor that also serves an adopted service, %s", (_name, weaken) => {
  test.skipIf(whyNotSilenceable("debugger") !== null)(
    "is left alone when its other run is stopped",
    async () => {
      vi.stubEnv("HOLDFAST_ANCHOR_WEAKEN", weaken);
      await using fixture = await RecoveryFixture.open();
      await fixture.gateway({}, HURRIED);
      const record = await begin(
        fixture,
        "--",
        "bash",
        "-c",
        "bash -c 'sleep 2821 & wait' & sleep 2822 & wait",
      );
      const find = (number: number) => findByCommandLine(`sleep\0${number}`)[0];
      await waitFor("all are there", () => find(2821) !== undefined && find(2822) !== undefined);
      const root = String(find(2821)?.parentPid);
      const { stdout } = await fixture.holdfast("service", "adopt", root);
      const service = stdout.trim();
      await using anchor = await held(anchorPid(record), "debugger");
      const stopped = await fixture.holdfast("process", "kill", record.runId);
      const hasCgroup = (await fixture.record(record.runId)).boundary?.cgroup !== null;
      // Only the cgroup knows everybody of it; without one, what is left cannot be told apart from the service.
      expect(stopped.code === 0).toBe(hasCgroup);
      await waitFor("its own are gone", () => find(2822) === undefined);
      expect(await fixture.waitForEnd(record.runId)).toMatchObject({
        exit: { reason: "manual-cancel", detail: expect.stringContaining(`it also serves ${service}`) },
        emptiness: hasCgroup ? "proven" : "unproven",
      });
      expect(find(2821)).toBeDefined();
      expect(processState(anchorPid(record))).toBe("t");
      await anchor.release();
      expect((await fixture.holdfast("service", "stop", service)).code).toBe(0);
      expect(find(2821)).toBeUndefined();
    },
  );

  test.skipIf(whyNotSilenceable("debugger") !== null)(
    "is left alone when the service's anchor.json is damaged",
    async () => {
      vi.stubEnv("HOLDFAST_ANCHOR_WEAKEN", weaken);
      await using fixture = await RecoveryFixture.open();
      await fixture.gateway({}, HURRIED);
      const record = await begin(
        fixture,
        "--",
        "bash",
        "-c",
        "bash -c 'sleep 2823 & wait' & sleep 2824 & wait",
      );
      const find = (number: number) => findByCommandLine(`sleep\0${number}`)[0];
      await waitFor("all are there", () => find(2823) !== undefined && find(2824) !== undefined);
      const { stdout } = await fixture.holdfast("service", "adopt", String(find(2823)?.parentPid));
      const service = stdout.trim();
      const file = join(fixture.home, "instances", record.originInstanceId, "runs", service, "anchor.json");
      const facts = await readFile(file);
      await writeFile(file, "{");
      await using anchor = await held(anchorPid(record), "debugger");
      const { code, stderr } = await fixture.holdfast("process", "kill", record.runId);
      expect(code).not.toBe(0);
      expect(stderr).toContain("anchor.json is damaged");
      expect(find(2823)).toBeDefined();
      expect(processState(anchorPid(record))).toBe("t");
      await writeFile(file, facts);
      await anchor.release();
      expect((await fixture.holdfast("service", "stop", service)).code).toBe(0);
    },
  );
});

/** Let go of before the field is looked through: a launcher takes an anchor whose death a debugger holds for alive for a while. */
async function held(
  pid: number,
  how: SilencingMethod,
): Promise<AsyncDisposable & { release(): Promise<void> }> {
  const release = await silenceAnchor(pid, how);
  return { release, [Symbol.asyncDispose]: release };
}
