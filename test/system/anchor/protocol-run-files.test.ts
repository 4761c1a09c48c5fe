import { existsSync } from "node:fs";
import { getPriority } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { PROTOCOL } from "../../../src/anchor/protocol/messages.js";
import { exitOf, GO, IGNORES_TERM, policy, STATUS, stop } from "../../support/anchor/owner-frames.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import { waitFor } from "../../support/wait-for.js";

describe("files of a run", () => {
  test("anchor.json: the identities, before the command has run", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.connect();
    owner.send(launcher.startFrame("run_a", "cat"));
    const welcome = await owner.receive("welcome");
    // It is written while the owner commits the record, and before GO is read.
    const file = await waitFor("it is written", () => launcher.readRunFile("run_a", "anchor.json"));
    expect(file).toMatchObject({
      protocol: PROTOCOL,
      runId: "run_a",
      instanceId: "in_raw",
      anchor: { pid: welcome.anchorPid, startTime: welcome.anchorStart },
      root: { pid: welcome.rootPid, startTime: welcome.rootStart },
      tier: welcome.tier,
    });
    owner.send(stop());
    await owner.receive("exited");
  });

  test("anchor.json: the scope of START, whatever its content; one that is too long is left out", async () => {
    const launcher = await RawLauncher.start();
    const longest = `{"labels":{"a":"${'"\\\\u001b\\n'.repeat(200)}"}}`.slice(0, 2047);
    const scopes: readonly (readonly [string, string])[] = [
      ['{"sessionKey":"näme \\" \u001b[2J"}', '{"sessionKey":"näme \\" \u001b[2J"}'],
      [longest.padEnd(2047, '"'), longest.padEnd(2047, '"')],
      ["x".repeat(2048), ""],
    ];
    for (const [at, [given, kept]] of scopes.entries()) {
      const owner = await launcher.connect();
      owner.send(launcher.startFrame(`run_${at}`, "cat", { scope: given }));
      await owner.receive("welcome");
      const file = await waitFor("it is written", () => launcher.readRunFile(`run_${at}`, "anchor.json"));
      expect(file).toMatchObject({ scope: kept });
      owner.send(stop());
      await owner.receive("exited");
    }
  });

  test("anchor.json: the kind, also after POLICY has changed it", async () => {
    const launcher = await RawLauncher.start();
    const kind = async (runId: string): Promise<unknown> =>
      ((await launcher.readRunFile(runId, "anchor.json")) as { kind?: unknown }).kind;
    const owner = await launcher.run("run_a", "echo up; cat");
    expect(await kind("run_a")).toBe("task");
    owner.send(policy({ kind: 1 }));
    await waitFor(async () => (await kind("run_a")) === "service");
    owner.send(policy({ kind: 0 }));
    await waitFor(async () => (await kind("run_a")) === "task");
    owner.send(stop());
    await owner.receive("exited");
  });

  test("exit.json: everything in the documentation, equal to the message to the owner", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "echo out; echo error >&2; exit 3");
    const told = await exitOf(owner);
    expect(told).toMatchObject({
      protocol: PROTOCOL,
      runId: "run_a",
      executed: true,
      reason: "exit",
      actor: "",
      requestId: "",
      leader: { code: 3 },
      spawnError: null,
      residue: [],
      residueCount: 0,
      killMode: "none",
      emptiness: "proven",
      stdout: { start: 0, end: 4, dropped: 0 },
      stderr: { start: 0, end: 6, dropped: 0 },
      processes: 1,
      limitHit: null,
    });
    expect(Object.keys(told["usage"] as object).sort()).toEqual(["cpuMs", "peakKb", "peakTasks", "source"]);
    expect(told["durationMs"]).toBeTypeOf("number");
    expect(await launcher.readRunFile("run_a", "exit.json")).toEqual(told);
    expect(await launcher.readRunFile("run_a", "leader.json")).toBeNull();
    await waitFor(() => !existsSync(join(launcher.runDirectory("run_a"), "sock")));
  });

  test("leader.json: the leader's own status, as soon as a process outlives it", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run(
      "run_a",
      `(${IGNORES_TERM}) & setsid sleep 3031 & sleep 0.1; kill -USR1 $$`,
      {
        graceMs: 200,
      },
    );
    expect(await owner.receive("leader")).toMatchObject({ code: null, signal: 10 });
    await waitFor(async () => (await launcher.readRunFile("run_a", "leader.json")) !== null);
    expect(await launcher.readRunFile("run_a", "leader.json")).toEqual({ signal: 10 });
    const exit = await exitOf(owner);
    expect(exit).toMatchObject({ reason: "ownership-escape", leader: { signal: 10 }, emptiness: "proven" });
    const kinds = (exit["residue"] as { kind: string }[]).map(({ kind }) => kind);
    expect(new Set(kinds)).toEqual(new Set(["background", "detached"]));
    expect(exit["residueCount"]).toBe(kinds.length);
  });

  test("a command that cannot be executed: FAILED with the step, and an exit file that says so", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.start("run_a", "", { args: ["/nonexistent/command"] });
    owner.send(GO);
    expect(await owner.receive("failed")).toMatchObject({ errno: 2, step: "exec" });
    expect(await exitOf(owner)).toMatchObject({
      executed: false,
      reason: "spawn-error",
      leader: null,
      spawnError: { errno: 2, step: "exec" },
    });
  });

  test("an anchor that is killed: the launcher kills its tree, reports it, and writes swept.json", async () => {
    const launcher = await RawLauncher.start();
    const holder = await launcher.hold();
    const owner = await launcher.start("run_a", "sleep 3031 & setsid sleep 3031 & echo up; wait");
    owner.send(GO, STATUS);
    const { anchorPid } = await owner.receive("welcome");
    await waitFor(async () => (await launcher.output("run_a")) === "up\n");
    process.kill(anchorPid, "SIGKILL");
    expect(await holder.receive("anchorLost")).toMatchObject({ runId: "run_a", anchorPid, signal: 9 });
    await waitFor(async () => (await launcher.readRunFile("run_a", "swept.json")) !== null);
    expect(await launcher.readRunFile("run_a", "swept.json")).toMatchObject({
      anchorSignal: 9,
      emptiness: "proven",
    });
  });
});

// Also true without the privilege to raise the priority.
test("a launcher that cleaned up after an anchor returns to its original priority, and so do its runs", async () => {
  const given = getPriority();
  const launcher = await RawLauncher.start();
  const lost = await launcher.run("run_a", "exec sleep 3043");
  lost.send(encodeMessage("status", {}));
  process.kill((await lost.receive("welcome")).anchorPid, "SIGKILL");
  await waitFor(async () => (await launcher.readRunFile("run_a", "swept.json")) !== null);
  const next = await launcher.run("run_b", "nice");
  expect(getPriority(launcher.pid)).toBe(given);
  await next.receive("exited");
  expect(await launcher.output("run_b")).toBe(`${given}\n`);
});
