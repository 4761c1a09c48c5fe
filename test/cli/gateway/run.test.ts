import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, openSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { RecoveryFixture, TWO_PROCESSES, whyNoTerminal } from "../../support/cli/recovery-fixture.js";
import { cliPath } from "../../support/cli/cli-fixture.js";
import { waitFor } from "../../support/wait-for.js";

describe.concurrent("a gateway", () => {
  test("that gets SIGTERM, SIGINT or SIGHUP detaches from its runs and leaves them alive", async () => {
    await using fixture = await RecoveryFixture.open();
    const [runId = ""] = await fixture.leaveOrphans([TWO_PROCESSES]);
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
      const gateway = await fixture.gateway();
      expect(await gateway.waitForEvent("ready")).toMatchObject({ held: 1 });
      expect(await gateway.kill(signal), signal).toMatchObject({ code: 0, stderr: "" });
      expect(gateway.events.at(-1), signal).toMatchObject({ type: "down", left: 1 });
      expect(await fixture.membersOf(runId), signal).toHaveLength(3);
      expect(await fixture.record(runId), signal).toMatchObject({ state: "running" });
    }
    await fixture.holdfast("runs", "cancel", runId, "--kill");
  });

  test("is one per state directory: of two started together one fails and says why", async () => {
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

  test("on a terminal prints its actions as text, and Ctrl-C ends it", async (context) => {
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

  test("continues when its output goes to a closed pipe or a full disk", async () => {
    await using fixture = await RecoveryFixture.open();
    const runIds = await fixture.leaveOrphans([TWO_PROCESSES], [TWO_PROCESSES]);
    for (const [at, log] of (["pipe", openSync("/dev/full", "w")] as const).entries()) {
      const runId = runIds[at] ?? "";
      const { leaseEpoch } = await fixture.record(runId);
      const child = spawn(process.execPath, [cliPath, "gateway", "run", "--json"], {
        env: fixture.env,
        stdio: ["ignore", log, log],
      });
      child.stdout?.destroy();
      child.stderr?.destroy();
      await waitFor(
        "it has taken the run over",
        async () => (await fixture.record(runId)).leaseEpoch > leaseEpoch,
      );
      await fixture.holdfast("runs", "cancel", runId);
      expect(await fixture.waitForEnd(runId)).toMatchObject({ exit: { reason: "manual-cancel" } });
      const left = once(child, "exit");
      child.kill("SIGTERM");
      expect(await left).toEqual([0, null]);
    }
  });

  test("with a damaged id does not start, and says which file to remove", async () => {
    await using fixture = await RecoveryFixture.open();
    await fixture.holdfast("run", "--", "true");
    await writeFile(join(fixture.home, "gateway-id"), "../../etc\n", { mode: 0o600 });
    const { code, stdout, stderr } = await fixture.holdfast("gateway", "run");
    expect({ code, stdout }).toEqual({ code: 125, stdout: "" });
    expect(stderr).toMatch(/^holdfast: [^\n]*gateway-id[^\n]+nothing was started[^\n]+remove it[^\n]+\n$/);
    expect(existsSync(join(fixture.home, "instances", "..", "..", "etc"))).toBe(false);
  });
});
