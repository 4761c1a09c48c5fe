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
import { BackgroundGateway } from "../../support/cli/background-gateway.js";
import type { GatewayRun, RecoveryFixture } from "../../support/cli/recovery-fixture.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

/** A silent anchor is noticed after two seconds. */
const HURRIED = { anchorAskMs: 2_000 };

const TREE = "setsid sleep 2811 & sleep 2812 & wait";

function anchorPid({ anchor }: RunRecord): number {
  if (anchor === null) throw new Error("its anchor is not on record");
  return anchor.pid;
}

/** A state directory with a gateway that notices silent anchors soon. */
async function open(weaken = ""): Promise<{ fixture: BackgroundGateway; gateway: GatewayRun }> {
  const fixture = new WeakenedFixture(await mkdtemp(join(tmpdir(), "hf-")));
  fixture.weaken = weaken;
  return { fixture, gateway: await fixture.gateway({}, HURRIED) };
}

async function begin(fixture: BackgroundGateway, script: string, timeoutMs?: number): Promise<RunRecord> {
  const timeout = timeoutMs === undefined ? {} : { timeoutMs };
  return fixture.record(await fixture.startRun({ argv: ["bash", "-c", script], ...timeout }));
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

class WeakenedFixture extends BackgroundGateway {
  weaken = "";

  override get env(): NodeJS.ProcessEnv {
    return { ...super.env, HOLDFAST_ANCHOR_WEAKEN: this.weaken };
  }
}

const STOP_OWN_ANCHOR = "kill -STOP $PPID; sleep 2801";
/** The anchor is silenced before the run ends. */
const timeoutOfRun = (): number => scaled(3_000);
const noDebugger = whyNotSilenceable("debugger");

/** Longer than the timeouts of the runs together, which are longer on a slow machine, too. */
const patience = { timeout: scaled(120_000) };

describe.concurrent("a run whose anchor is silent", patience, () => {
  test.skipIf(noDebugger !== null)("ends by its timeout under a gateway, and not before", async () => {
    const { fixture: opened } = await open();
    await using fixture = opened;
    const lasting = await begin(fixture, TREE);
    await using _lasting = await silenceAnchor(anchorPid(lasting), "debugger");
    const debugged = await begin(fixture, TREE, timeoutOfRun());
    await using _debugged = await silenceAnchor(anchorPid(debugged), "debugger");
    const stopping = await begin(fixture, STOP_OWN_ANCHOR, timeoutOfRun());
    for (const record of [stopping, debugged]) {
      expect(await fixture.waitForEnd(record.runId, 40_000)).toMatchObject({
        exit: { reason: "overall-timeout" },
        emptiness: "proven",
      });
      await allGone(fixture, record, 0);
      expect(await eventTypes(fixture, record)).toContain("anchor-silent");
    }
    expect((await fixture.record(debugged.runId)).exit?.detail).toContain("its anchor did not answer");
    expect(isDead(anchorPid(debugged))).toBe(true);
    expect(await eventTypes(fixture, debugged)).toEqual(expect.arrayContaining(["cancel", "exit"]));

    // No end is due.
    await sawSilence(fixture, lasting);
    await setTimeout(3 * defaults.anchorContinueMs);
    expect(await fixture.membersOf(lasting.runId)).toHaveLength(3);
    expect(isDead(anchorPid(lasting))).toBe(false);
    expect((await fixture.holdfast("doctor")).stdout).toContain(lasting.runId);
    expect((await fixture.holdfast("process", "kill", lasting.runId)).code).toBe(0);
    await allGone(fixture, lasting, 0);
  });

  test.skipIf(noDebugger !== null)(
    "ends by its timeout without a gateway, and the next one records it",
    async () => {
      const { fixture: opened, gateway } = await open();
      await using fixture = opened;
      const debugged = await begin(fixture, TREE, timeoutOfRun());
      await using _held = await silenceAnchor(anchorPid(debugged), "debugger");
      const stopping = await begin(fixture, STOP_OWN_ANCHOR, timeoutOfRun());
      await gateway.kill();
      for (const record of [stopping, debugged]) await allGone(fixture, record, 40_000);
      await fixture.gateway({}, HURRIED);
      for (const { runId } of [stopping, debugged])
        expect(await fixture.waitForEnd(runId, 40_000)).toMatchObject({
          exit: { reason: "overall-timeout" },
          emptiness: "proven",
        });
      expect((await fixture.record(debugged.runId)).exit?.actor).toBe("launcher");
      for (const record of [stopping, debugged])
        expect(await eventTypes(fixture, record)).toContain("anchor-silent");
    },
  );

  test.skipIf(noDebugger !== null)(
    "gets its grace period again without a gateway, if its anchor ran in between",
    async () => {
      const { fixture: opened, gateway } = await open();
      await using fixture = opened;
      const asked = join(fixture.home, "asked");
      const runId = await fixture.startRun({
        argv: ["bash", "-c", `trap 'echo >>${asked}' TERM; while :; do echo; sleep 0.1; done`],
        noOutputTimeoutMs: timeoutOfRun(),
        graceMs: 60_000,
      });
      const record = await fixture.record(runId);
      await gateway.kill();
      const directory = join(fixture.home, "instances", record.originInstanceId, "runs", runId);
      const silentAt = async (): Promise<unknown> =>
        JSON.parse(await readFile(join(directory, "silent.json"), "utf8")).at;
      const sizeOf = async (file: string): Promise<number> => (await readFile(file).catch(() => "")).length;
      const output = join(directory, "stdout.00000000000000000000");
      const noticed: unknown[] = [];
      for (let times = 1; times <= 2; times++) {
        await using held = await silenceAnchor(anchorPid(record), "debugger");
        await waitFor("it is asked to end", async () => (await sizeOf(asked)) === times, 40_000);
        noticed.push(await silentAt());
        const stored = await sizeOf(output);
        await held.release();
        // No end is due any more. The launcher sees within two seconds that the anchor ran.
        await waitFor("its anchor stores output", async () => (await sizeOf(output)) > stored);
      }
      expect(noticed[0]).not.toBe(noticed[1]);
      expect(isDead(anchorPid(record))).toBe(false);
      expect(await fixture.membersOf(runId)).not.toEqual([]);
      expect(await fixture.holdfast("process", "kill", runId, "--grace", "0s")).toMatchObject({ code: 0 });
    },
  );

  test("continues when a stopped anchor is continued", async () => {
    const { fixture: opened } = await open();
    await using fixture = opened;
    const record = await begin(fixture, TREE);
    await using _held = await silenceAnchor(anchorPid(record), "SIGSTOP");
    await sawSilence(fixture, record);
    await waitFor("it answers", async () => (await eventTypes(fixture, record)).includes("anchor-answers"));
    expect(await fixture.membersOf(record.runId)).toHaveLength(3);
    expect(await fixture.holdfast("process", "kill", record.runId)).toMatchObject({ code: 0 });
    expect(await fixture.waitForEnd(record.runId)).toMatchObject({
      exit: { reason: "manual-cancel", detail: null },
    });
  });

  test("is ended within the bound by process kill and gateway stop --runs terminate", async () => {
    const { fixture: opened } = await open();
    await using fixture = opened;
    const held: AsyncDisposable[] = [];
    await using _held = {
      [Symbol.asyncDispose]: async () => {
        for (const each of held) await each[Symbol.asyncDispose]();
      },
    };
    const silenced = async (): Promise<RunRecord[]> =>
      Promise.all(
        SILENCING_METHODS.filter((how) => whyNotSilenceable(how) === null).map(async (how) => {
          const record = await begin(fixture, TREE);
          held.push(await silenceAnchor(anchorPid(record), how));
          return record;
        }),
      );
    const withinBound = async (...args: readonly string[]): Promise<void> => {
      const began = performance.now();
      expect(await fixture.holdfast(...args)).toMatchObject({ code: 0 });
      expect(performance.now() - began).toBeLessThan(scaled(defaults.stopBoundMs + 3_000));
    };
    const killed = await silenced();
    await Promise.all(killed.map(({ runId }) => withinBound("process", "kill", runId)));
    for (const record of killed) {
      await allGone(fixture, record, 0);
      expect(await fixture.waitForEnd(record.runId, 40_000)).toMatchObject({
        exit: { reason: "manual-cancel" },
        emptiness: "proven",
      });
    }
    const terminated = await silenced();
    await withinBound("gateway", "stop", "--runs", "terminate");
    for (const record of terminated) {
      await allGone(fixture, record, 0);
      expect(await fixture.record(record.runId)).toMatchObject({
        exit: { reason: "shutdown" },
        emptiness: "proven",
      });
    }
  });
});

describe.concurrent.each([
  ["with a cgroup", "", 2_820],
  ["without a cgroup", "cgroup", 2_830],
])("an anchor that also serves an adopted service, %s", patience, (_name, weaken, number) => {
  test.skipIf(noDebugger !== null)(
    "is left alone when its other run is stopped, or the service's anchor.json is damaged",
    async () => {
      const { fixture: opened } = await open(weaken);
      await using fixture = opened;
      // A run of two sleepers, one of which is adopted. The numbers tell them apart from those of other tests.
      const script = `bash -c 'sleep ${number} & wait' & sleep ${number + 1} & wait`;
      const record = await begin(fixture, script);
      const serviceProcess = () => findByCommandLine(`sleep\0${number}\0`)[0];
      const ownProcess = () => findByCommandLine(`sleep\0${number + 1}\0`)[0];
      await waitFor("both are alive", () => serviceProcess() !== undefined && ownProcess() !== undefined);
      const adopted = await fixture.holdfast("service", "adopt", String(serviceProcess()?.parentPid));
      const service = adopted.stdout.trim();
      await using anchor = await silenceAnchor(anchorPid(record), "debugger");

      const file = join(fixture.home, "instances", record.originInstanceId, "runs", service, "anchor.json");
      const facts = await readFile(file);
      await writeFile(file, "{");
      const refused = await fixture.holdfast("process", "kill", record.runId);
      expect(refused.code).not.toBe(0);
      expect(refused.stderr).toContain("anchor.json is damaged");
      expect(serviceProcess()).toBeDefined();
      expect(processState(anchorPid(record))).toBe("t");
      await writeFile(file, facts);

      const stopped = await fixture.holdfast("process", "kill", record.runId);
      const hasCgroup = (await fixture.record(record.runId)).boundary?.cgroup !== null;
      // Without a cgroup, the remaining processes cannot be distinguished from those of the service.
      expect(stopped.code === 0).toBe(hasCgroup);
      await waitFor("its own process is gone", () => ownProcess() === undefined);
      expect(await fixture.waitForEnd(record.runId)).toMatchObject({
        exit: { reason: "manual-cancel", detail: expect.stringContaining(`it also serves ${service}`) },
        emptiness: hasCgroup ? "proven" : "unproven",
      });
      const again = await fixture.holdfast("process", "kill", record.runId);
      expect(again.stdout + again.stderr).toContain("it had already ended: manual-cancel");
      expect(again.code === 0).toBe(hasCgroup);
      expect(serviceProcess()).toBeDefined();
      expect(processState(anchorPid(record))).toBe("t");
      await anchor.release();
      expect((await fixture.holdfast("service", "stop", service)).code).toBe(0);
      expect(serviceProcess()).toBeUndefined();
    },
  );
});
