import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, openSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { until } from "../io/until.js";
import { Field, Gate, PAIR, whyNoTerminal } from "./field.js";
import { main, sees } from "./stage.js";

describe.concurrent("a gateway", () => {
  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
    "told to stop by %s lets go of its runs, says how many, and leaves them alive",
    async (signal) => {
      await using field = await Field.open();
      const [runId = ""] = await field.orphan([PAIR]);
      const gateway = await field.gateway();
      expect(await gateway.hears("ready")).toMatchObject({ held: 1 });
      expect(await gateway.kill(signal)).toMatchObject({ code: 0, stderr: "" });
      expect(gateway.news.at(-1)).toMatchObject({ type: "down", left: 1 });
      expect(await field.membersOf(runId)).toHaveLength(3);
      expect(await field.record(runId)).toMatchObject({ state: "running" });
      await field.holdfast("runs", "cancel", runId, "--kill");
    },
  );

  test("is one per state directory: of two started together one works, and says so to the other", async () => {
    await using field = await Field.open();
    const [runId = ""] = await field.orphan([PAIR]);
    const both = [field.start("gateway", "run"), field.start("gateway", "run")];
    const first = await Promise.race(both.map(async ({ finished }, at) => ({ at, ...(await finished) })));
    expect(first).toMatchObject({ code: 125, stdout: "" });
    expect(first.stderr).toMatch(
      /^holdfast: a gateway is already running for [^\n]+; nothing was started\n$/,
    );
    const late = await field.holdfast("gateway", "run", "--json");
    expect(late).toMatchObject({ code: 125, stdout: "" });
    const other = both[1 - first.at];
    await until("the other has taken the run over", async () => (await field.record(runId)).leaseEpoch === 2);
    await field.holdfast("runs", "cancel", runId);
    await field.ended(runId);
    other?.child.kill("SIGTERM");
    expect((await other?.finished)?.stderr).toContain("holdfast: gateway is down\n");
  });

  test("killed outright and started again goes on with its runs: output, input and true ends", async () => {
    await using field = await Field.open();
    await using gate = await Gate.make();
    const [waiting = "", killed = ""] = await field.orphan([gate.wait(7)], [PAIR]);
    const first = await field.gateway();
    const { instanceId } = await first.hears("up");
    await first.kill("SIGKILL");
    // Nobody is there when it ends.
    await gate.open();
    const second = await field.gateway();
    expect(await second.hears("up")).toMatchObject({ instanceId });
    expect(await second.hears("ready")).toMatchObject({ held: 1 });
    expect(await second.hears("decision", ({ runId }) => runId === killed)).toMatchObject({
      row: "anchor-alive",
      action: "continue",
    });
    expect(await field.ended(waiting)).toMatchObject({
      exit: { reason: "exit", code: 7 },
      emptiness: "proven",
    });
    expect(await field.record(killed)).toMatchObject({ ownerInstanceId: instanceId, leaseEpoch: 3 });
    expect(await field.membersOf(killed)).toHaveLength(3);
    await field.holdfast("runs", "cancel", killed);
    expect(await field.ended(killed)).toMatchObject({ exit: { reason: "manual-cancel" } });
    const exits = (await field.events(waiting)).filter(({ type }) => type === "exit");
    expect(exits).toHaveLength(1);
    await second.kill("SIGTERM");
  });

  test("completes a killed foreground run, adopts a killed program's run, and ends what is not to outlive its owner", async () => {
    await using field = await Field.open();
    const gateway = await field.gateway();
    const { instanceId } = await gateway.hears("up");
    const foreground = field.start("run", "--grace", "200ms", "--", "sh", "-c", PAIR);
    await sees(foreground.child.stdout, "up");
    const [{ runId } = { runId: "" }] = await field.json<{ runId: string }[]>("runs", "list");
    foreground.child.kill("SIGKILL");
    const [adopted = "", ended = ""] = await field.leave(
      [PAIR],
      [PAIR, { onOrphan: "terminate", graceMs: 200 }],
    );
    // Its anchor does not wait for anybody to come back.
    await until("its anchor has ended it", async () => (await field.membersOf(runId)).length === 0);
    expect(await field.record(runId)).toMatchObject({ state: "running" });
    field.expireLeases();
    expect(await field.ended(runId)).toMatchObject({ exit: { reason: "owner-lost" }, emptiness: "proven" });
    expect(await field.ended(ended)).toMatchObject({ exit: { reason: "owner-lost" }, emptiness: "proven" });
    await gateway.hears("decision", (news) => news.runId === adopted && news.action === "adopt");
    expect(await field.record(adopted)).toMatchObject({ state: "running", ownerInstanceId: instanceId });
    expect(await field.membersOf(adopted)).toHaveLength(3);
    await field.holdfast("runs", "cancel", adopted);
    expect(await field.ended(adopted)).toMatchObject({ exit: { reason: "manual-cancel" } });
    await gateway.kill("SIGTERM");
  });

  test("on a terminal says in words what it does, and Ctrl-C ends it", async (context) => {
    if (whyNoTerminal !== null) context.skip(whyNoTerminal);
    await using field = await Field.open();
    const [runId = ""] = await field.orphan([PAIR]);
    const { code, stdout } = await field.atTerminal(["gateway", "run"], ["ready; it holds 1 run", "\u0003"]);
    expect(stdout).toContain(`holdfast: ${runId}: adopt: its owner is gone, its anchor lives`);
    expect(stdout).toContain("gateway is down; left to their anchors: 1 run");
    expect(code).toBe(0);
    await field.holdfast("runs", "cancel", runId, "--kill");
  });

  test.each(["a reader that has left", "a full disk"])(
    "does not mind that its log goes to %s",
    async (where) => {
      await using field = await Field.open();
      const [runId = ""] = await field.orphan([PAIR]);
      const log = where === "a full disk" ? openSync("/dev/full", "w") : "pipe";
      const child = spawn(process.execPath, [main, "gateway", "run", "--json"], {
        env: field.env,
        stdio: ["ignore", log, log],
      });
      child.stdout?.destroy();
      child.stderr?.destroy();
      await until("it has taken the run over", async () => (await field.record(runId)).leaseEpoch === 2);
      await field.holdfast("runs", "cancel", runId);
      expect(await field.ended(runId)).toMatchObject({ exit: { reason: "manual-cancel" } });
      const left = once(child, "exit");
      child.kill("SIGTERM");
      expect(await left).toEqual([0, null]);
    },
  );

  test("whose id is damaged does not start, and says what to remove", async () => {
    await using field = await Field.open();
    await field.holdfast("run", "--", "true");
    await writeFile(join(field.home, "gateway-id"), "../../etc\n", { mode: 0o600 });
    const { code, stdout, stderr } = await field.holdfast("gateway", "run");
    expect({ code, stdout }).toEqual({ code: 125, stdout: "" });
    expect(stderr).toMatch(/^holdfast: [^\n]*gateway-id[^\n]+nothing was started[^\n]+remove it[^\n]+\n$/);
    expect(existsSync(join(field.home, "instances", "..", "..", "etc"))).toBe(false);
  });
});
