import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RunInterrupts } from "../../../src/cli/run/run-interrupts.js";
import type { ForegroundRun } from "../../../src/cli/run/stdio.js";
import type { RunRecord } from "../../../src/model/run.js";
import { openSqliteStoreForReading } from "../../../src/store/sqlite/open-for-reading.js";
import { cliPath, waitForText, CliFixture } from "../../support/cli/cli-fixture.js";
import { fixtureFactory, SUPERVISION_MODES } from "../../support/cli/supervision-modes.js";
import { ForegroundFixture, LONG_TIMEOUT } from "../../support/cli/foreground-fixture.js";
import { scaled, soak } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

/** Prints `ready` when the trap is set. TERM also reaches the child that it waits for. */
const polite = `trap 'echo stopped; exit 0' TERM; echo ready; while :; do sleep 0.05; done`;
const stubborn = `trap '' TERM INT HUP; echo ready; while :; do sleep 0.05; done`;

/** Milliseconds from the start of a command to its signal. */
const START_MOMENTS = soak ? [50, 120, 160, 200, 240, 280, 320, 400] : [50, 160, 240, 320];

async function lastRecord(cliFixture: CliFixture): Promise<RunRecord | undefined> {
  await using store = await openSqliteStoreForReading(join(cliFixture.home, "store.sqlite"));
  return (await store?.listRuns({ limit: 1 }))?.[0];
}

describe.each(SUPERVISION_MODES)("%s", (mode) => {
  const open = fixtureFactory(mode);

  describe("a signal to holdfast", () => {
    test.each([
      ["SIGINT", 130, "stopping… press Ctrl-C again to kill"],
      ["SIGTERM", 143, "stopping…"],
      ["SIGHUP", 129, "stopping…"],
    ] as const)("%s terminates the whole tree, and the exit code is %i", async (signal, code, message) => {
      await using cliFixture = await open();
      const { child, finished } = cliFixture.start("run", "--", "sh", "-c", polite);
      await waitForText(child.stdout, "ready");
      child.kill(signal);
      const result = await finished;
      expect(result).toMatchObject({ code, stdout: "ready\nstopped\n" });
      expect(result.stderr.split("\n")[0]).toBe(`holdfast: ${message}`);
      expect(await lastRecord(cliFixture)).toMatchObject({
        state: "exited",
        exit: { reason: "manual-cancel", actor: expect.stringMatching(/^cli:/), code: 0 },
        emptiness: "proven",
      });
    });

    test("a second one kills without waiting for the grace period", async () => {
      await using cliFixture = await open();
      const { child, finished } = cliFixture.start("run", "--grace", "25s", "--", "sh", "-c", stubborn);
      await waitForText(child.stdout, "ready");
      const began = performance.now();
      child.kill("SIGINT");
      await waitForText(child.stderr, "stopping");
      child.kill("SIGINT");
      const result = await finished;
      expect(performance.now() - began).toBeLessThan(scaled(5_000));
      expect(result.code).toBe(130);
      expect(result.stderr).toContain("holdfast: killing…");
      expect(await lastRecord(cliFixture)).toMatchObject({
        exit: { reason: "manual-cancel", signal: "SIGKILL" },
      });
    });

    test("kills after the grace period", async () => {
      await using cliFixture = await open();
      const { child, finished } = cliFixture.start("run", "--grace", "300ms", "--", "sh", "-c", stubborn);
      await waitForText(child.stdout, "ready");
      child.kill("SIGTERM");
      expect((await finished).code).toBe(143);
      expect(await lastRecord(cliFixture)).toMatchObject({ exit: { signal: "SIGKILL" } });
    });

    test("at any moment of the start leaves nothing behind", async () => {
      await using cliFixture = await open();
      for (const delay of START_MOMENTS) {
        const { child, finished } = cliFixture.start("run", "--", "sleep", "60");
        child.stdin.end();
        await setTimeout(delay);
        child.kill("SIGTERM");
        const { code, signal } = await finished;
        // Before the first line of JavaScript, the signal ends Node.
        expect(signal === "SIGTERM" || code === 143, `after ${delay} ms: ${code} ${signal}`).toBe(true);
      }
      await cliFixture.expectNoProcesses();
    });

    test("ends the run although its output has no reader", async () => {
      await using cliFixture = await open();
      const child = spawn(process.execPath, [cliPath, "run", "--", "yes"], {
        env: cliFixture.env,
        stdio: ["ignore", "pipe", "ignore"],
      });
      // The pipe fills and stays full.
      await once(child.stdout, "readable");
      await setTimeout(500);
      const began = performance.now();
      child.kill("SIGTERM");
      const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
      expect(performance.now() - began).toBeLessThan(scaled(6_000));
      expect(code === 143 || signal === "SIGTERM").toBe(true);
      child.stdout.destroy();
      expect(await lastRecord(cliFixture)).toMatchObject({
        state: "exited",
        exit: { reason: "manual-cancel" },
      });
    });
  });

  test("a timeout ends a run whose output is not read", async () => {
    await using cliFixture = await open();
    const { code, stdout } = await cliFixture.shell(
      "holdfast run --timeout 1s -- yes | (sleep 2; wc -c >/dev/null); echo ${PIPESTATUS[0]}",
    );
    expect({ code, stdout }).toEqual({ code: 0, stdout: "124\n" });
  });
});

test("after SIGKILL of holdfast, the anchor ends the tree", async () => {
  await using cliFixture = await CliFixture.open();
  const script = `(setsid sh -c "${stubborn}" &); ${stubborn}`;
  const { child, finished } = cliFixture.start("run", "--", "sh", "-c", script);
  await waitForText(child.stdout, "ready");
  child.kill("SIGKILL");
  await finished;
  // Two seconds of owner loss, five of grace.
  await cliFixture.expectNoProcesses(12_000);
});

describe("an interrupt", LONG_TIMEOUT, () => {
  let fixture: ForegroundFixture;
  beforeAll(async () => {
    fixture = await ForegroundFixture.started();
  });
  afterAll(() => fixture[Symbol.asyncDispose]());

  test("of a command that waits for approval ends the wait, and removes the approval", async () => {
    const client = await fixture.client();
    const { token } = await client.openSession({ body: { key: "k", execRules: [{ effect: "ask" }] } });
    const file = join(fixture.home, "touched");
    const { child, finished } = fixture.startWith({ HOLDFAST_TOKEN: token }, "run", "--", "touch", file);
    await waitForText(child.stderr, "waiting for approval");
    expect((await client.listApprovals()).approvals).toHaveLength(1);
    child.kill("SIGINT");
    expect((await finished).code).toBe(130);
    await waitFor(
      "the approval is removed",
      async () => (await client.listApprovals()).approvals.length === 0,
    );
    expect(existsSync(file)).toBe(false);
  });

  test("of a run that became a service leaves the service running", async () => {
    const { child, finished, runId } = await fixture.startForeground("echo up; exec sleep 7402");
    const reported = waitForText(child.stderr, "is a service now");
    expect(await fixture.holdfast("service", "adopt", runId)).toMatchObject({ code: 0 });
    await reported;
    child.kill("SIGHUP");
    const { code, stderr } = await finished;
    expect({ code, stderr }).toEqual({
      code: 129,
      stderr: expect.stringContaining(`run ${runId} is a service now, and continues`) as string,
    });
    expect(await fixture.membersOf(runId)).toHaveLength(1);
    expect(await fixture.record(runId)).toMatchObject({ state: "running", kind: "service" });
    expect((await fixture.holdfast("service", "stop", runId, "--grace", "0")).code).toBe(0);
  });
});

test("a failed stop is reported each time, and the third interrupt leaves", async () => {
  const said: string[] = [];
  using interrupts = new RunInterrupts("me", (message) => said.push(message));
  const asked: unknown[] = [];
  interrupts.attach({
    service: null,
    cancel: async (options: unknown) => {
      asked.push(options);
      throw new Error("its anchor does not answer");
    },
  } as unknown as ForegroundRun);
  for (const word of ["stopping…", "killing…"]) {
    said.length = 0;
    process.emit("SIGHUP", "SIGHUP");
    await waitFor("the failure is reported", () => said.length === 2);
    expect(said).toEqual([word, "its anchor does not answer"]);
  }
  process.emit("SIGHUP", "SIGHUP");
  await interrupts.leaveRequested;
  expect(asked).toEqual([{ actor: "me" }, { actor: "me", graceMs: 0 }]);
  expect(interrupts.firstSignal).toBe("SIGHUP");
});
