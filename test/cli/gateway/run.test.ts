import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, openSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  RecoveryFixture,
  RunGate,
  TWO_PROCESSES,
  whyNoTerminal,
} from "../../support/cli/recovery-fixture.js";
import { cliPath, waitForText } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

describe.concurrent("a gateway", () => {
  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
    "told to stop by %s lets go of its runs, says how many, and leaves them alive",
    async (signal) => {
      await using fixture = await RecoveryFixture.open();
      const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES]);
      const gateway = await fixture.gateway();
      expect(await gateway.waitForEvent("ready")).toMatchObject({ held: 1 });
      expect(await gateway.kill(signal)).toMatchObject({ code: 0, stderr: "" });
      expect(gateway.events.at(-1)).toMatchObject({ type: "down", left: 1 });
      expect(await fixture.membersOf(runId)).toHaveLength(3);
      expect(await fixture.record(runId)).toMatchObject({ state: "running" });
      await fixture.holdfast("runs", "cancel", runId, "--kill");
    },
  );

  test("is one per state directory: of two started together one works, and says so to the other", async () => {
    await using fixture = await RecoveryFixture.open();
    const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES]);
    const both = [fixture.start("gateway", "run"), fixture.start("gateway", "run")];
    const first = await Promise.race(both.map(async ({ finished }, at) => ({ at, ...(await finished) })));
    expect(first).toMatchObject({ code: 125, stdout: "" });
    expect(first.stderr).toMatch(
      /^holdfast: a gateway is already running for [^\n]+; nothing was started\n$/,
    );
    const late = await fixture.holdfast("gateway", "run", "--json");
    expect(late).toMatchObject({ code: 125, stdout: "" });
    const other = both[1 - first.at];
    await waitFor(
      "the other has taken the run over",
      async () => (await fixture.record(runId)).leaseEpoch === 2,
    );
    await fixture.holdfast("runs", "cancel", runId);
    await fixture.waitForEnd(runId);
    other?.child.kill("SIGTERM");
    expect((await other?.finished)?.stderr).toContain("holdfast: gateway is down\n");
  });

  test("killed outright and started again goes on with its runs: output, input and true ends", async () => {
    await using fixture = await RecoveryFixture.open();
    await using gate = await RunGate.create();
    const [waiting = "", killed = ""] = await fixture.leaveOrphans([gate.waitScript(7)], [TWO_PROCESSES]);
    const first = await fixture.gateway();
    const { instanceId } = await first.waitForEvent("up");
    await first.kill("SIGKILL");
    // Nobody is there when it ends.
    await gate.release();
    const second = await fixture.gateway();
    expect(await second.waitForEvent("up")).toMatchObject({ instanceId });
    expect(await second.waitForEvent("ready")).toMatchObject({ held: 1 });
    expect(await second.waitForEvent("decision", ({ runId }) => runId === killed)).toMatchObject({
      row: "anchor-alive",
      action: "continue",
    });
    expect(await fixture.waitForEnd(waiting)).toMatchObject({
      exit: { reason: "exit", code: 7 },
      emptiness: "proven",
    });
    expect(await fixture.record(killed)).toMatchObject({ ownerInstanceId: instanceId, leaseEpoch: 3 });
    expect(await fixture.membersOf(killed)).toHaveLength(3);
    await fixture.holdfast("runs", "cancel", killed);
    expect(await fixture.waitForEnd(killed)).toMatchObject({ exit: { reason: "manual-cancel" } });
    const exits = (await fixture.events(waiting)).filter(({ type }) => type === "exit");
    expect(exits).toHaveLength(1);
    await second.kill("SIGTERM");
  });

  test("completes a killed foreground run, adopts a killed program's run, and ends what is not to outlive its owner", async () => {
    await using fixture = await RecoveryFixture.open();
    const gateway = await fixture.gateway();
    const { instanceId } = await gateway.waitForEvent("up");
    const foreground = fixture.start("run", "--grace", "200ms", "--", "sh", "-c", TWO_PROCESSES);
    await waitForText(foreground.child.stdout, "up");
    const [{ runId } = { runId: "" }] = await fixture.json<{ runId: string }[]>("runs", "list");
    foreground.child.kill("SIGKILL");
    const [adopted = "", ended = ""] = await fixture.leaveRuns(
      [TWO_PROCESSES],
      [TWO_PROCESSES, { onOrphan: "terminate", graceMs: 200 }],
    );
    // Its anchor does not wait for anybody to come back.
    await waitFor("its anchor has ended it", async () => (await fixture.membersOf(runId)).length === 0);
    expect(await fixture.record(runId)).toMatchObject({ state: "running" });
    fixture.expireLeases();
    expect(await fixture.waitForEnd(runId)).toMatchObject({
      exit: { reason: "owner-lost" },
      emptiness: "proven",
    });
    expect(await fixture.waitForEnd(ended)).toMatchObject({
      exit: { reason: "owner-lost" },
      emptiness: "proven",
    });
    await gateway.waitForEvent("decision", (news) => news.runId === adopted && news.action === "adopt");
    expect(await fixture.record(adopted)).toMatchObject({ state: "running", ownerInstanceId: instanceId });
    expect(await fixture.membersOf(adopted)).toHaveLength(3);
    await fixture.holdfast("runs", "cancel", adopted);
    expect(await fixture.waitForEnd(adopted)).toMatchObject({ exit: { reason: "manual-cancel" } });
    await gateway.kill("SIGTERM");
  });

  test("on a terminal says in words what it does, and Ctrl-C ends it", async (context) => {
    if (whyNoTerminal !== null) context.skip(whyNoTerminal);
    await using fixture = await RecoveryFixture.open();
    const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES]);
    const { code, stdout } = await fixture.atTerminal(
      ["gateway", "run"],
      ["ready; it holds 1 run", "\u0003"],
    );
    expect(stdout).toContain(`holdfast: ${runId}: adopt: its owner is gone, its anchor is alive`);
    expect(stdout).toContain("gateway is down; left to their anchors: 1 run");
    expect(code).toBe(0);
    await fixture.holdfast("runs", "cancel", runId, "--kill");
  });

  test.each(["a reader that has left", "a full disk"])(
    "does not mind that its log goes to %s",
    async (where) => {
      await using fixture = await RecoveryFixture.open();
      const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES]);
      const log = where === "a full disk" ? openSync("/dev/full", "w") : "pipe";
      const child = spawn(process.execPath, [cliPath, "gateway", "run", "--json"], {
        env: fixture.env,
        stdio: ["ignore", log, log],
      });
      child.stdout?.destroy();
      child.stderr?.destroy();
      await waitFor("it has taken the run over", async () => (await fixture.record(runId)).leaseEpoch === 2);
      await fixture.holdfast("runs", "cancel", runId);
      expect(await fixture.waitForEnd(runId)).toMatchObject({ exit: { reason: "manual-cancel" } });
      const left = once(child, "exit");
      child.kill("SIGTERM");
      expect(await left).toEqual([0, null]);
    },
  );

  test("whose id is damaged does not start, and says what to remove", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.holdfast("run", "--", "true");
    await writeFile(join(fixture.home, "gateway-id"), "../../etc\n", { mode: 0o600 });
    const { code, stdout, stderr } = await fixture.holdfast("gateway", "run");
    expect({ code, stdout }).toEqual({ code: 125, stdout: "" });
    expect(stderr).toMatch(/^holdfast: [^\n]*gateway-id[^\n]+nothing was started[^\n]+remove it[^\n]+\n$/);
    expect(existsSync(join(fixture.home, "instances", "..", "..", "etc"))).toBe(false);
  });
});
