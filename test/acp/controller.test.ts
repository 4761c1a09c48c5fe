import { expect, test } from "vitest";
import { AcpFixture, shellAgent } from "../support/agents/acp-fixture.js";
import { misbehavingAgent } from "../support/agents/adapter-fixture.js";
import { livingParts, STUBBORN_TREE, STUBBORN_TREE_THEN_EXIT } from "../support/agents/stubborn-tree.js";
import { waitFor } from "../support/wait-for.js";

const SOON = 400;

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => ({ succeeded: value }),
    (error: unknown) => error,
  );
}

test.each([
  ["never-initialize", { initializeMs: SOON }, { code: "ACP_TIMEOUT" }],
  ["never-new", { newSessionMs: SOON }, { code: "ACP_TIMEOUT" }],
  ["garbage", {}, { code: "ACP_CLOSED", reason: "protocol-error" }],
  ["wrong-version", {}, { code: "ACP_CLOSED", reason: "wrong-version" }],
])("%s: no session is created, and nothing is left", async (mode, limits, error) => {
  const fixture = await AcpFixture.open(limits);
  expect(await failure(fixture.spawn(misbehavingAgent(mode)))).toMatchObject(error);
  const [session] = await fixture.store.listAcpSessions({});
  expect(session).toMatchObject({ state: "closed" });
  await fixture.waitForAgentExit(session!.sessionId);
  // As many as it takes to see what it writes.
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
  ["asks-forever", { permissionRequestsPerTurn: 100 }, undefined, "interrupted", "more than 100 times"],
  ["flood", {}, SOON * 2, "failed", "ACP_TIMEOUT"],
  ["ignores-cancel", { noFramesMs: SOON }, undefined, "interrupted", "no-frames"],
  ["giant-frame", {}, undefined, "interrupted", "frame-too-large"],
  ["unterminated", {}, undefined, "interrupted", "frame-too-large"],
  ["closes-stdout", {}, undefined, "interrupted", "(ended)"],
  ["dies-mid-frame", {}, undefined, "interrupted", "middle of a frame"],
] as const)(
  "%s: the turn ends with a typed error, and nothing is left",
  async (mode, limits, timeout, outcome, says) => {
    const fixture = await AcpFixture.open(limits);
    const session = await fixture.spawn(misbehavingAgent(mode), { rules: [{ effect: "reject" }] });
    const turn = await fixture.promptAndWait(session, "go", timeout);
    expect(turn).toMatchObject({ state: "ended", outcome });
    expect(JSON.stringify(turn.problem)).toContain(says);
    await fixture.waitFor(session, async () => (await fixture.session(session)).state === "down");
    await fixture.waitForAgentExit(session);
    if (mode === "dies-mid-frame") expect(turn.text).toBe("last words");
    await fixture.acp.closeSession(session, { actor: "test" });
    expect(await fixture.session(session)).toMatchObject({ state: "closed" });
  },
);

test.each(["answers-twice", "unknown-methods", "in-pieces"])(
  "%s: this turn and the next complete",
  async (mode) => {
    const fixture = await AcpFixture.open();
    const session = await fixture.spawn(misbehavingAgent(mode));
    expect(await fixture.promptAndWait(session, "go")).toMatchObject({
      outcome: "completed",
      stopReason: "end_turn",
    });
    expect(await fixture.promptAndWait(session, "go")).toMatchObject({ outcome: "completed", ordinal: 2 });
    await fixture.acp.closeSession(session, { actor: "test" });
    await fixture.waitForAgentExit(session);
  },
);

test("one prompt runs, and the queued ones can be listed and cancelled", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent());
  const pid = await fixture.pid(session);
  const first = await fixture.prompt(session, "echo first; sleep 3106");
  const second = await fixture.prompt(session, "echo second");
  const third = await fixture.prompt(session, "echo third");
  await fixture.waitForText(first, "first");
  const states = (await fixture.store.listAcpTurns({ sessionId: session })).map(({ state }) => state);
  expect(states).toEqual(["running", "queued", "queued"]);
  const { turnId } = second;
  expect(await fixture.acp.cancelTurn(session, { actor: "test", turnId })).toMatchObject({
    turnId,
    outcome: "cancelled",
    startedAt: null,
  });
  expect(await fixture.acp.cancelTurn(session, { actor: "test" })).toMatchObject({
    turnId: first.turnId,
    outcome: "cancelled",
    stopReason: "cancelled",
    cancel: { actor: "test" },
  });
  expect(await fixture.waitForTurnEnd(third)).toMatchObject({ outcome: "completed", text: "third\n" });
  expect(await fixture.pid(session)).toBe(pid);
  expect(fixture.log).not.toContain("second");
  expect(await fixture.acp.cancelTurn(session, { actor: "test" })).toBeNull();
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("a cancel reports the processes that the turn left, ends them only on request, and keeps the agent", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent());
  const pid = await fixture.pid(session);
  // Left by an earlier turn: not this one's.
  await fixture.promptAndWait(session, "setsid sleep 3117 >/dev/null 2>&1 &");
  const first = await fixture.prompt(session, STUBBORN_TREE);
  await waitFor("all of the tree lives", () => livingParts() === "Fbnste");
  const reported = await fixture.acp.cancelTurn(session, { actor: "test" });
  // Its shell died; nothing else did.
  expect(reported?.audit).toMatchObject({ reaped: false });
  expect(reported?.audit?.left.map(({ command }) => command)).toEqual(Array(6).fill("sleep"));
  expect(livingParts()).toBe("Fbnste");
  expect((await fixture.waitForTurnEnd(first)).outcome).toBe("cancelled");

  await fixture.prompt(session, STUBBORN_TREE.replaceAll("310", "320"));
  await waitFor("both trees live, and what was there before", async () => {
    const { processes } = await fixture.acp.verifyProcessTree(session);
    return processes.filter(({ command }) => command === "sleep").length === 13;
  });
  const reaped = await fixture.acp.cancelTurn(session, { actor: "test", reapTools: true });
  expect(reaped?.audit).toMatchObject({ reaped: true, survivors: [] });
  expect(reaped?.audit?.left).toHaveLength(6);
  // The turn before had its cancel without reaping: that tree is not this turn's, and lives.
  expect(livingParts()).toBe("Fbnste");
  expect(await fixture.pid(session)).toBe(pid);
  expect(await fixture.promptAndWait(session, "echo still here")).toMatchObject({ text: "still here\n" });
  await fixture.acp.closeSession(session, { actor: "test" });
  expect(livingParts()).toBe("");
  await fixture.waitForAgentExit(session);
});

test("a session with the policy always ends the processes that a turn leaves", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent(), { reap: "always" });
  const turn = await fixture.promptAndWait(session, STUBBORN_TREE_THEN_EXIT);
  const audit = await fixture.waitFor(
    session,
    async () => (await fixture.store.getAcpTurn(turn.turnId))?.audit,
  );
  expect(audit).toMatchObject({ reaped: true, survivors: [] });
  expect(audit.left).toHaveLength(5);
  expect(livingParts()).toBe("");
  expect(await fixture.promptAndWait(session, "echo on")).toMatchObject({ text: "on\n" });
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});

test("a cancel that the agent ignores is unconfirmed, and the next prompt gets a new process", async () => {
  const fixture = await AcpFixture.open({ cancelMs: SOON });
  const session = await fixture.spawn(shellAgent("deaf", "resume"));
  const pid = await fixture.pid(session);
  const turn = await fixture.prompt(session, "echo busy; sleep 3106");
  await fixture.waitForText(turn, "busy");
  const cancelled = await fixture.acp.cancelTurn(session, { actor: "test" });
  expect(cancelled).toMatchObject({ outcome: "cancel-unconfirmed", stopReason: null });
  expect(await fixture.promptAndWait(session, "echo next")).toMatchObject({
    outcome: "completed",
    text: "next\n",
  });
  expect(await fixture.pid(session)).not.toBe(pid);
  expect(fixture.log).toContain("session/resume");
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});
