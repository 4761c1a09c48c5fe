import { expect, test } from "vitest";
import { until as eventually } from "../gateway/real-gateway.js";
import { until } from "../until.js";
import { Controlled, shellAgent } from "./controlled.js";
import { misbehaving } from "./driven.js";
import { living, NASTY, NASTY_THEN_DONE } from "./real/nasty-tree.js";

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
])("%s: no session comes of it, and nothing is left", async (mode, limits, error) => {
  const house = await Controlled.open(limits);
  expect(await failure(house.spawn(misbehaving(mode)))).toMatchObject(error);
  const [session] = await house.store.listAcpSessions({});
  expect(session).toMatchObject({ state: "closed" });
  await house.gone(session!.sessionId);
  // As many as it takes to see what it writes.
  expect(house.malformed).toHaveLength(mode === "garbage" ? 10 : 0);
});

test("an agent that says rubbish and leaves is told by that, not by what could not be said to it", async () => {
  const house = await Controlled.open({ leaveMs: 10_000 }, { onProblem: () => undefined });
  const rubbish = house.spawn(["sh", "-c", "yes rubbish | head -n 2000"]);
  await expect(rubbish).rejects.toMatchObject({ code: "ACP_CLOSED", reason: "protocol-error" });
});

test.each([
  ["never-prompt", {}, SOON * 2, "failed", "ACP_TIMEOUT"],
  ["half-frames", {}, SOON * 2, "failed", "ACP_TIMEOUT"],
  ["asks-forever", {}, SOON * 2, "failed", "ACP_TIMEOUT"],
  ["asks-forever", { questions: 100 }, undefined, "interrupted", "more than 100 times"],
  ["flood", {}, SOON * 2, "failed", "ACP_TIMEOUT"],
  ["ignores-cancel", { noFramesMs: SOON }, undefined, "interrupted", "no-frames"],
  ["giant-frame", {}, undefined, "interrupted", "frame-too-large"],
  ["unterminated", {}, undefined, "interrupted", "frame-too-large"],
  ["closes-stdout", {}, undefined, "interrupted", "(ended)"],
  ["dies-mid-frame", {}, undefined, "interrupted", "mid-frame"],
] as const)(
  "%s: the turn ends with a typed error, and nothing is left",
  async (mode, limits, timeout, outcome, says) => {
    const house = await Controlled.open(limits);
    const session = await house.spawn(misbehaving(mode), { rules: [{ effect: "reject" }] });
    const turn = await house.turn(session, "go", timeout);
    expect(turn).toMatchObject({ state: "ended", outcome });
    expect(JSON.stringify(turn.problem)).toContain(says);
    await house.until(session, async () => (await house.session(session)).state === "down");
    await house.gone(session);
    if (mode === "dies-mid-frame") expect(turn.text).toBe("last words");
    await house.acp.closeSession(session, { actor: "test" });
    expect(await house.session(session)).toMatchObject({ state: "closed" });
  },
);

test.each(["answers-twice", "unknown-methods", "in-pieces"])(
  "%s: the turn completes, and so does the next",
  async (mode) => {
    const house = await Controlled.open();
    const session = await house.spawn(misbehaving(mode));
    expect(await house.turn(session, "go")).toMatchObject({ outcome: "completed", stopReason: "end_turn" });
    expect(await house.turn(session, "go")).toMatchObject({ outcome: "completed", ordinal: 2 });
    await house.acp.closeSession(session, { actor: "test" });
    await house.gone(session);
  },
);

test("one prompt is in flight; the others wait where they can be seen and cancelled", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent());
  const pid = await house.pid(session);
  const first = await house.ask(session, "echo first; sleep 3106");
  const second = await house.ask(session, "echo second");
  const third = await house.ask(session, "echo third");
  await house.said(first, "first");
  const states = (await house.store.listAcpTurns({ sessionId: session })).map(({ state }) => state);
  expect(states).toEqual(["running", "queued", "queued"]);
  const { turnId } = second;
  expect(await house.acp.cancelTurn(session, { actor: "test", turnId })).toMatchObject({
    turnId,
    outcome: "cancelled",
    startedAt: null,
  });
  expect(await house.acp.cancelTurn(session, { actor: "test" })).toMatchObject({
    turnId: first.turnId,
    outcome: "cancelled",
    stopReason: "cancelled",
    cancel: { actor: "test" },
  });
  expect(await house.ended(third)).toMatchObject({ outcome: "completed", text: "third\n" });
  expect(await house.pid(session)).toBe(pid);
  expect(house.log).not.toContain("second");
  expect(await house.acp.cancelTurn(session, { actor: "test" })).toBeNull();
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});

test("a cancel reports what the turn left, ends it only when asked to, and the same process serves the next", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent());
  const pid = await house.pid(session);
  // Left by an earlier turn: not this one's.
  await house.turn(session, "setsid sleep 3117 >/dev/null 2>&1 &");
  const first = await house.ask(session, NASTY);
  await until("all of the tree lives", () => living() === "Fbnste");
  const reported = await house.acp.cancelTurn(session, { actor: "test" });
  // Its shell died; nothing else did.
  expect(reported?.audit).toMatchObject({ reaped: false });
  expect(reported?.audit?.left.map(({ command }) => command)).toEqual(Array(6).fill("sleep"));
  expect(living()).toBe("Fbnste");
  expect((await house.ended(first)).outcome).toBe("cancelled");

  await house.ask(session, NASTY.replaceAll("310", "320"));
  await eventually("both trees live, and what was there before", async () => {
    const { processes } = await house.acp.verifyOwnedTree(session);
    return processes.filter(({ command }) => command === "sleep").length === 13;
  });
  const reaped = await house.acp.cancelTurn(session, { actor: "test", reapTools: true });
  expect(reaped?.audit).toMatchObject({ reaped: true, survivors: [] });
  expect(reaped?.audit?.left).toHaveLength(6);
  // The turn before had its cancel without reaping: that tree is not this turn's, and lives.
  expect(living()).toBe("Fbnste");
  expect(await house.pid(session)).toBe(pid);
  expect(await house.turn(session, "echo still here")).toMatchObject({ text: "still here\n" });
  await house.acp.closeSession(session, { actor: "test" });
  expect(living()).toBe("");
  await house.gone(session);
});

test("by policy, what a turn leaves is ended with it", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent(), { reap: "always" });
  const turn = await house.turn(session, NASTY_THEN_DONE);
  const audit = await house.until(session, async () => (await house.store.getAcpTurn(turn.turnId))?.audit);
  expect(audit).toMatchObject({ reaped: true, survivors: [] });
  expect(audit.left).toHaveLength(5);
  expect(living()).toBe("");
  expect(await house.turn(session, "echo on")).toMatchObject({ text: "on\n" });
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});

test("an agent that does not hear a cancel: unconfirmed; the next prompt has another process", async () => {
  const house = await Controlled.open({ cancelMs: SOON });
  const session = await house.spawn(shellAgent("deaf", "resume"));
  const pid = await house.pid(session);
  const turn = await house.ask(session, "echo busy; sleep 3106");
  await house.said(turn, "busy");
  const cancelled = await house.acp.cancelTurn(session, { actor: "test" });
  expect(cancelled).toMatchObject({ outcome: "cancel-unconfirmed", stopReason: null });
  expect(await house.turn(session, "echo next")).toMatchObject({ outcome: "completed", text: "next\n" });
  expect(await house.pid(session)).not.toBe(pid);
  expect(house.log).toContain("session/resume");
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});
