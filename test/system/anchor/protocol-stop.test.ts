import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { encodeMessage } from "../../../src/anchor/protocol/message-codec.js";
import { exitOf, GO, IGNORES_TERM, policy, STATUS, stop } from "../../support/anchor/owner-frames.js";
import { RawLauncher } from "../../support/anchor/raw-launcher.js";
import { rawField, rawFrame } from "../../support/anchor/raw-link.js";
import { scaled } from "../../support/scale.js";
import { waitFor } from "../../support/wait-for.js";

async function ended(launcher: RawLauncher, runId: string): Promise<unknown> {
  await waitFor(async () => (await launcher.readRunFile(runId, "exit.json")) !== null, 8_000);
  return launcher.readRunFile(runId, "exit.json");
}

describe("STOP", () => {
  test("keeps the first reason, and answers every later STOP with it", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", IGNORES_TERM, { graceMs: 300 });
    const observer = await launcher.attach("run_a", 0);
    await waitFor(async () => (await launcher.output("run_a")) !== "");
    const first = { reason: "overall-timeout", actor: "deadline", requestId: "one" };
    owner.send(stop(first));
    expect(await observer.receive("stopping")).toMatchObject(first);
    expect(await launcher.readRunFile("run_a", "stop.json")).toEqual(first);
    for (const link of [observer, owner, observer]) {
      if (link === owner) await owner.receive("stopping");
      link.send(stop({ reason: "shutdown", actor: "later", requestId: "two" }));
      expect(await link.receive("stopping")).toMatchObject(first);
    }
    expect(await exitOf(owner)).toMatchObject({ ...first, leader: { signal: 9 }, emptiness: "proven" });
    expect(await launcher.readRunFile("run_a", "stop.json")).toEqual(first);
  });

  test("can be shortened by a later one", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", IGNORES_TERM, { graceMs: 60_000 });
    await waitFor(async () => (await launcher.output("run_a")) !== "");
    owner.send(stop({ actor: "first" }));
    owner.send(stop({ actor: "second", graceMs: 50 }));
    expect(await exitOf(owner)).toMatchObject({ actor: "first", leader: { signal: 9 } });
  });

  test("cannot be delayed by a later one", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", IGNORES_TERM, { graceMs: 60_000 });
    await waitFor(async () => (await launcher.output("run_a")) !== "");
    owner.send(stop({ actor: "first", graceMs: 50 }), stop({ actor: "second", graceMs: 60_000 }));
    expect(await exitOf(owner)).toMatchObject({ actor: "first", leader: { signal: 9 } });
  });

  test("cannot be delayed by a new policy, not even one that comes with it", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", IGNORES_TERM, { graceMs: 60_000 });
    await waitFor(async () => (await launcher.output("run_a")) !== "");
    owner.send(stop({ graceMs: 50 }), policy({ graceMs: 4_000 }));
    const asked = performance.now();
    expect(await exitOf(owner)).toMatchObject({ leader: { signal: 9 } });
    expect(performance.now() - asked).toBeLessThan(scaled(3_000));
  });

  test("without a reason or an actor is refused, and nothing is stopped", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    for (const fields of [
      [],
      [rawField(27, "why")],
      [rawField(28, "who")],
      [rawField(27, "x".repeat(400)), rawField(28, "a")],
    ]) {
      owner.send(rawFrame(5, ...fields));
      expect(await owner.receive("refused")).toMatchObject({ codeName: "bad-frame" });
    }
    owner.send(STATUS);
    expect(await owner.receive("welcome")).toMatchObject({ phase: 2, reason: null });
    owner.send(stop());
    await owner.receive("exited");
  });

  test.each([
    ["quotes", '"'.repeat(255)],
    ["control characters", "\u0001\u001b".repeat(127)],
    ["umlauts", "ä".repeat(127)],
  ])("is recorded literally, whatever its actor is: %s", async (_, actor) => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "cat");
    owner.send(stop({ actor, requestId: actor.slice(0, 60), graceMs: 0 }));
    expect(await exitOf(owner)).toMatchObject({ actor });
    expect(await launcher.readRunFile("run_a", "exit.json")).toMatchObject({ actor });
    expect(await launcher.readRunFile("run_a", "stop.json")).toMatchObject({ actor });
  });
});

describe("before GO", () => {
  test("the end of the owner's connection means that the command never runs", async () => {
    const launcher = await RawLauncher.start();
    const mark = join(launcher.directory, "mark");
    const owner = await launcher.start("run_a", `: > '${mark}'`);
    owner.close();
    expect(await ended(launcher, "run_a")).toMatchObject({ executed: false, leader: null });
    expect(existsSync(mark)).toBe(false);
  });

  test("STOP means that the command never runs, and GO after it is refused", async () => {
    const launcher = await RawLauncher.start();
    const mark = join(launcher.directory, "mark");
    const owner = await launcher.start("run_a", `: > '${mark}'`);
    owner.send(stop({ actor: "hasty" }), GO);
    expect(await owner.receive("refused")).toMatchObject({ codeName: "bad-phase" });
    expect(await exitOf(owner)).toMatchObject({ executed: false, actor: "hasty", leader: null });
    expect(existsSync(mark)).toBe(false);
  });

  test("an owner that attaches after the first has disconnected may not send GO", async () => {
    const launcher = await RawLauncher.start();
    let answered = 0;
    for (let round = 0; round < 20; round++) {
      const runId = `run_${round}`;
      const mark = join(launcher.directory, runId);
      const first = await launcher.start(runId, `: > '${mark}'`);
      // The stopped anchor finds the end of one owner and the HELLO of the next at the same time.
      first.send(STATUS);
      const { anchorPid } = await first.receive("welcome");
      process.kill(anchorPid, "SIGSTOP");
      const next = await launcher.connectTo(runId);
      next.send(launcher.helloFrame(runId, { epoch: 2 }), GO);
      first.close();
      await first.ended();
      process.kill(anchorPid, "SIGCONT");
      await next.ended();
      if (next.received.some(({ name }) => name === "welcome")) answered += 1;
      expect(await ended(launcher, runId)).toMatchObject({ executed: false });
      expect(existsSync(mark)).toBe(false);
    }
    console.log(`a later owner was let in, and could not GO: ${answered} of 20`);
  });

  test("an owner that attaches right after GO does not see a closed gate", async () => {
    const launcher = await RawLauncher.start();
    for (let round = 0; round < 10; round++) {
      const runId = `run_${round}`;
      const first = await launcher.start(runId, "cat");
      first.send(STATUS);
      const { anchorPid } = await first.receive("welcome");
      process.kill(anchorPid, "SIGSTOP");
      first.send(GO);
      const next = await launcher.connectTo(runId);
      next.send(launcher.helloFrame(runId, { epoch: 2 }), STATUS);
      process.kill(anchorPid, "SIGCONT");
      // An owner that is told `gated` may assume that nothing has run, and stop it as such.
      expect(await next.receive("welcome")).toMatchObject({ phase: 2 });
      next.send(stop({ graceMs: 0 }));
      expect(await exitOf(next)).toMatchObject({ executed: true });
    }
  });

  test("GO opens the gate once", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.start("run_a", "cat");
    owner.send(GO, GO);
    expect(await owner.receive("refused")).toMatchObject({ codeName: "bad-phase" });
    await owner.receive("started");
    owner.send(GO);
    expect(await owner.receive("refused")).toMatchObject({ codeName: "bad-phase" });
    owner.send(stop());
    expect(owner.received.filter(({ name }) => name === "started")).toHaveLength(1);
    await owner.receive("exited");
  });
});

describe("a deadline", () => {
  test.each([
    ["overall-timeout", { overallMs: 150 }, "while :; do echo busy; sleep 0.02; done"],
    ["no-output-timeout", { noOutputMs: 150 }, "exec sleep 3031"],
  ])("is enforced without an owner: %s", async (reason, change, script) => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", script, { kind: 1, backstopMs: 60_000, ...change });
    owner.close();
    expect(await ended(launcher, "run_a")).toMatchObject({ reason, actor: "anchor", emptiness: "proven" });
  });

  test.each([
    ["overall-timeout", { overallMs: 100 }],
    ["no-output-timeout", { noOutputMs: 100 }],
  ])("is enforced after the backstop if the owner is stuck: %s", async (reason, change) => {
    const launcher = await RawLauncher.start();
    const began = performance.now();
    const owner = await launcher.run("run_a", "exec sleep 3031", { backstopMs: 400, ...change });
    expect(await exitOf(owner)).toMatchObject({ reason, actor: "anchor" });
    expect(performance.now() - began).toBeGreaterThan(499);
  });

  test("is replaced by POLICY, and counted from that time", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "exec sleep 3031", { overallMs: 1_500, backstopMs: 0 });
    owner.send(policy({ overallMs: 0 }), STATUS);
    await owner.receive("welcome");
    await setTimeout(1_600);
    owner.send(STATUS);
    expect(await owner.receive("welcome")).toMatchObject({ phase: 2, reason: null });
    const again = performance.now();
    owner.send(policy({ overallMs: 100 }));
    expect(await exitOf(owner)).toMatchObject({ reason: "overall-timeout" });
    expect(performance.now() - again).toBeGreaterThan(99);
  });

  test("for output is re-armed by HEARTBEAT", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "exec sleep 3031", { noOutputMs: 2_000, backstopMs: 0 });
    const began = performance.now();
    await setTimeout(800);
    owner.send(encodeMessage("heartbeat", {}));
    expect(await exitOf(owner)).toMatchObject({ reason: "no-output-timeout" });
    expect(performance.now() - began).toBeGreaterThan(800 + 1_999);
  });
});

describe("without an owner", () => {
  test("a task ends by its policy, and reports the reason", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "trap '' TERM; sleep 3031 & setsid sleep 3031 & wait", {
      graceMs: 100,
    });
    owner.close();
    expect(await ended(launcher, "run_a")).toMatchObject({
      reason: "owner-lost",
      actor: "anchor",
      emptiness: "proven",
    });
  });

  test("the clock restarts when an owner has been connected", async () => {
    const launcher = await RawLauncher.start();
    const first = await launcher.run("run_a", "exec sleep 3031", { ownerLossMs: 2_000 });
    const began = performance.now();
    first.close();
    await setTimeout(800);
    (await launcher.attach("run_a", 2)).close();
    expect(await ended(launcher, "run_a")).toMatchObject({ reason: "owner-lost" });
    expect(performance.now() - began).toBeGreaterThan(800 + 1_999);
  });

  test("a service continues, and its next owner finds it unchanged", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "echo up; cat", { kind: 1, ownerLossMs: 50 });
    await waitFor(async () => (await launcher.output("run_a")) === "up\n");
    owner.close();
    await setTimeout(400);
    const next = await launcher.connectTo("run_a");
    next.send(launcher.helloFrame("run_a", { epoch: 2 }));
    expect(await next.receive("welcome")).toMatchObject({ phase: 2, reason: null, outEnd: 3 });
    next.send(encodeMessage("closeStdin", { offset: 0 }));
    expect(await exitOf(next)).toMatchObject({ reason: "exit", leader: { code: 0 } });
  });

  test("a service that becomes a task ends like a task", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "exec sleep 3031", { kind: 1 });
    owner.send(policy({ kind: 0, ownerLossMs: 50 }), STATUS);
    await owner.receive("welcome");
    owner.close();
    expect(await ended(launcher, "run_a")).toMatchObject({ reason: "owner-lost" });
  });

  test("the exit status is kept for a later owner", async () => {
    const launcher = await RawLauncher.start();
    const owner = await launcher.run("run_a", "sleep 0.1; echo late; exit 9", { ownerLossMs: 5_000 });
    owner.close();
    expect(await ended(launcher, "run_a")).toMatchObject({
      reason: "exit",
      leader: { code: 9 },
      stdout: { end: 5 },
    });
    expect(await launcher.output("run_a")).toBe("late\n");
  });
});
