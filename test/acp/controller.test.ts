import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { AcpFixture, misbehavingAgent, openAcpSession, shellAgent } from "../support/agents/acp-fixture.js";
import {
  livingParts,
  OTHER_STUBBORN_TREE,
  STUBBORN_TREE,
  STUBBORN_TREE_THEN_EXIT,
} from "../support/agents/stubborn-tree.js";
import { waitFor } from "../support/wait-for.js";

const SOON = 400;

test.each([
  ["never-initialize", { initializeMs: SOON }, { code: "ACP_TIMEOUT" }],
  ["never-new", { newSessionMs: SOON }, { code: "ACP_TIMEOUT" }],
  ["garbage", {}, { code: "ACP_CLOSED", reason: "protocol-error" }],
  ["wrong-version", {}, { code: "ACP_CLOSED", reason: "wrong-version" }],
])("%s: no session is created, and nothing is left", async (mode, limits, error) => {
  const fixture = await AcpFixture.open(limits);
  await expect(fixture.spawn(misbehavingAgent(mode))).rejects.toMatchObject(error);
  const [session] = await fixture.store.listAcpSessions({});
  expect(session).toMatchObject({ state: "closed" });
  await fixture.waitForAgentExit(session!.sessionId);
  // Only the first malformed lines are reported.
  expect(fixture.malformed).toHaveLength(mode === "garbage" ? 10 : 0);
});

test("the error of an agent that prints garbage and exits shows its output", async () => {
  const fixture = await AcpFixture.open({ ownExitMs: 10_000 }, { onProblem: () => undefined });
  const rubbish = fixture.spawn(["sh", "-c", "yes rubbish | head -n 2000"]);
  await expect(rubbish).rejects.toMatchObject({ code: "ACP_CLOSED", reason: "protocol-error" });
});

test.each([
  ["never-prompt", {}, SOON * 2, "failed", "ACP_TIMEOUT"],
  ["half-frames", {}, SOON * 2, "failed", "ACP_TIMEOUT"],
  ["asks-forever", {}, SOON * 2, "failed", "ACP_TIMEOUT"],
  ["asks-forever", { permissionRequestsPerTurn: 100 }, undefined, "failed", "more than 100 times"],
  ["flood", {}, SOON * 2, "failed", "ACP_TIMEOUT"],
  ["giant-frame", {}, undefined, "failed", "frame-too-large"],
  ["unterminated", {}, undefined, "failed", "frame-too-large"],
  ["closes-stdout", {}, undefined, "failed", "(ended)"],
  ["dies-mid-frame", {}, undefined, "interrupted", "middle of a frame"],
] as const)(
  "%s: the turn ends with a typed error, and nothing is left",
  async (mode, limits, timeout, outcome, says) => {
    const fixture = await AcpFixture.open(limits);
    const session = await fixture.spawn(misbehavingAgent(mode), { rules: [{ effect: "reject" }] });
    const turn = await fixture.promptAndWait(session, "go", timeout);
    expect(turn).toMatchObject({ state: "ended", outcome });
    expect(JSON.stringify(turn.problem)).toContain(says);
    await fixture.waitForState(session, "down");
    await fixture.waitForAgentExit(session);
    if (mode === "dies-mid-frame") {
      expect(turn.text).toBe("last words");
      expect(JSON.stringify(turn.problem)).toContain("it exited with code 3");
    }
    await fixture.close(session);
    expect(await fixture.session(session)).toMatchObject({ state: "closed" });
  },
);

test.each([
  ["answers-twice", ""],
  ["unknown-methods", ""],
  ["in-pieces", "grün 🌱"],
])("%s: this turn and the next complete", async (mode, text) => {
  const { fixture, session } = await openAcpSession(misbehavingAgent(mode));
  for (const ordinal of [1, 2])
    expect(await fixture.promptAndWait(session, "go")).toMatchObject({
      ...{ outcome: "completed", stopReason: "end_turn", ordinal, text },
    });
});

test("one prompt runs, and the queued ones can be listed and cancelled", async () => {
  const { fixture, session } = await openAcpSession(shellAgent());
  const pid = await fixture.pid(session);
  const first = await fixture.prompt(session, "echo first; sleep 3106");
  const second = await fixture.prompt(session, "echo second");
  const third = await fixture.prompt(session, "echo third");
  await fixture.waitForText(first, "first");
  const states = (await fixture.store.listAcpTurns({ sessionId: session })).map(({ state }) => state);
  expect(states).toEqual(["running", "queued", "queued"]);
  const { turnId } = second;
  expect(await fixture.cancel(session, { turnId })).toMatchObject({
    turnId,
    outcome: "cancelled",
    startedAt: null,
  });
  expect(await fixture.cancel(session)).toMatchObject({
    turnId: first.turnId,
    outcome: "cancelled",
    stopReason: "cancelled",
    cancel: { actor: "test" },
  });
  expect(await fixture.waitForTurnEnd(third)).toMatchObject({ outcome: "completed", text: "third\n" });
  expect(await fixture.pid(session)).toBe(pid);
  expect(fixture.log).not.toContain("second");
  expect(await fixture.cancel(session)).toBeNull();
});

test("a cancel reports the processes that the turn left, ends them only on request, and keeps the agent", async () => {
  const { fixture, session } = await openAcpSession(shellAgent());
  const pid = await fixture.pid(session);
  // Left by an earlier turn, so not reported for this one.
  await fixture.promptAndWait(session, "setsid sleep 3117 >/dev/null 2>&1 &");
  const first = await fixture.prompt(session, STUBBORN_TREE);
  await waitFor("all processes of the tree run", () => livingParts() === "Fbnste");
  const reported = await fixture.cancel(session);
  // Only its shell was killed.
  expect(reported?.audit).toMatchObject({ reaped: false });
  expect(reported?.audit?.left.map(({ command }) => command)).toEqual(Array(6).fill("sleep"));
  expect(livingParts()).toBe("Fbnste");
  expect((await fixture.waitForTurnEnd(first)).outcome).toBe("cancelled");

  await fixture.prompt(session, OTHER_STUBBORN_TREE);
  await waitFor("both trees and the earlier process run", async () => {
    const { processes } = await fixture.acp.verifyProcessTree(session);
    return processes.filter(({ command }) => command === "sleep").length === 13;
  });
  const reaped = await fixture.cancel(session, { reapTools: true });
  expect(reaped?.audit).toMatchObject({ reaped: true, survivors: [] });
  expect(reaped?.audit?.left).toHaveLength(6);
  // The tree of the turn before is not reaped.
  expect(livingParts()).toBe("Fbnste");
  expect(await fixture.pid(session)).toBe(pid);
  await fixture.echo(session, "still here");
  await fixture.close(session);
  expect(livingParts()).toBe("");
});

test("a session with the policy always ends the processes that a turn leaves", async () => {
  const { fixture, session } = await openAcpSession(shellAgent(), { reap: "always" });
  const turn = await fixture.promptAndWait(session, STUBBORN_TREE_THEN_EXIT);
  const audit = await fixture.waitFor(
    session,
    async () => (await fixture.store.getAcpTurn(turn.turnId))?.audit,
  );
  expect(audit).toMatchObject({ reaped: true, survivors: [] });
  expect(audit.left).toHaveLength(5);
  expect(livingParts()).toBe("");
  await fixture.echo(session, "on");
});

test.each(["asked", "always"] as const)(
  "a process that ends soon after its turn is neither reported nor ended, with the policy %s",
  async (reap) => {
    const fixture = await AcpFixture.open({ settleMs: 10_000 });
    const session = await fixture.spawn(shellAgent(), { reap });
    const ended = join(fixture.home, "ended");
    const helper = `(trap '' TERM; while [ ! -e go ]; do sleep 0.05; done; touch ${ended})`;
    const turn = await fixture.promptAndWait(session, `${helper} >/dev/null 2>&1 &`);
    await writeFile(join(fixture.home, "go"), "");
    const audit = await fixture.waitFor(
      session,
      async () => (await fixture.store.getAcpTurn(turn.turnId))?.audit,
    );
    expect(audit).toMatchObject({ left: [], survivors: [], unknown: null });
    expect(existsSync(ended)).toBe(true);
  },
);

test("the time of a prompt includes the start of its agent", async () => {
  const fixture = await AcpFixture.open();
  const spawned = fixture.spawn(misbehavingAgent("never-new"), { key: "two", startTimeoutMs: SOON });
  await expect(spawned).rejects.toMatchObject({
    ...{
      code: "ACP_TIMEOUT",
      message: expect.stringMatching(/did not (introduce itself|open a session) within/),
    },
  });
  const [first, second] = ["closes-stdout-and-exits", "never-new"].map((mode) =>
    misbehavingAgent(mode).join(" "),
  );
  const session = await fixture.spawn([
    "sh",
    "-c",
    `[ -e again ] && exec ${second}; touch again; exec ${first}`,
  ]);
  await fixture.promptAndWait(session, "go");
  await fixture.waitForState(session, "down");
  expect(await fixture.promptAndWait(session, "go", SOON)).toMatchObject({
    ...{ outcome: "failed", problem: { code: "ACP_TIMEOUT" }, startedAt: null },
  });
});

test("an agent whose process was killed is gone before its session has that on record", async () => {
  const { fixture, session } = await openAcpSession(shellAgent());
  const ready = await fixture.session(session);
  expect(await fixture.acp.isAgentGone(ready)).toBe(false);
  const run = await fixture.run(session);
  await fixture.signalAgent(session);
  await run.wait();
  expect(await fixture.acp.isAgentGone(ready)).toBe(true);
  await fixture.waitForState(session, "down");
});

test("a cancel that the agent ignores is unconfirmed, and the next prompt gets a new process", async () => {
  const fixture = await AcpFixture.open({ cancelMs: SOON });
  const session = await fixture.spawn(shellAgent("deaf", "resume"));
  const pid = await fixture.pid(session);
  await fixture.promptUntil(session, "echo busy; sleep 3106", "busy");
  const cancelled = await fixture.cancel(session);
  expect(cancelled).toMatchObject({ outcome: "cancel-unconfirmed", stopReason: null });
  await fixture.echo(session, "next");
  expect(await fixture.pid(session)).not.toBe(pid);
  expect(fixture.log).toContain("session/resume");
});
