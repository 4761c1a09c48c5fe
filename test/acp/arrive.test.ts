import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { Controlled, shellAgent } from "./controlled.js";
import { misbehaving } from "./driven.js";

test("an agent that lives and is not held yet gets no second beside it; once it is, it serves", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent());
  const pid = await house.pid(session);
  const turn = await house.ask(session, "echo on; sleep 3106");
  await house.said(turn, "on");
  const second = await house.restart({}, { blind: true });
  const refused = { code: "ACP_NOT_HELD", sessionId: session };
  await expect(second.ask(session, "echo early")).rejects.toMatchObject(refused);
  await expect(second.acp.closeSession(session, { actor: "test" })).rejects.toMatchObject(refused);
  const { runs } = await second.supervisor.reconcile();
  // Asked while it is being taken up.
  const [next] = await Promise.all([second.ask(session, "echo next"), second.acp.takeUp(runs)]);
  expect(await second.acp.cancelTurn(session, { actor: "test" })).toMatchObject({
    turnId: turn.turnId,
    outcome: "cancelled",
  });
  expect(await second.ended(next)).toMatchObject({ outcome: "completed", text: "next\n" });
  expect(await second.pid(session)).toBe(pid);
  expect(await second.supervisor.listRuns({ sessionId: session })).toHaveLength(1);
  await second.acp.closeSession(session, { actor: "test" });
  await second.gone(session);
});

test("an agent whose end comes to light later: its turn is interrupted then, and the session goes on", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent("resume"));
  const turn = await house.ask(session, "echo on; sleep 3106");
  await house.said(turn, "on");
  const { runId } = await house.session(session);
  const second = await house.restart({}, { blind: true });
  await second.supervisor.stop(runId ?? "");
  const { runs } = await second.supervisor.reconcile();
  await second.acp.takeUp(runs);
  expect(await second.ended(turn)).toMatchObject({ outcome: "interrupted", text: "on\n" });
  expect(await second.turn(session, "echo next")).toMatchObject({ outcome: "completed", text: "next\n" });
  await second.acp.closeSession(session, { actor: "test" });
  await second.gone(session);
});

test("why a session is down is still true after a restart", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent());
  const { runId } = await house.session(session);
  await house.supervisor.stop(runId ?? "");
  await house.until(session, async () => (await house.session(session)).state === "down");
  const { problem } = await house.session(session);
  expect(problem).toMatchObject({ code: "ACP_CLOSED" });
  const second = await house.restart();
  expect(await second.session(session)).toMatchObject({ state: "down", problem });
  await second.acp.closeSession(session, { actor: "test" });
});

test.each(["starting", "closing"] as const)(
  "an agent that was %s when its gateway died is ended, and its TMPDIR after it",
  async (state) => {
    const house = await Controlled.open();
    const session = await house.spawn(shellAgent());
    const { runId, tmpdir } = await house.session(session);
    await house.leave();
    const { store } = await Controlled.open({}, { home: house.home, instanceId: "in_else" });
    await store.commitAcp(session, "in_acp", { session: { state } });
    const second = await house.restart();
    await second.until(
      session,
      async () => (await second.session(session)).state === (state === "starting" ? "down" : "closed"),
    );
    expect(existsSync(tmpdir ?? "/")).toBe(false);
    await second.gone(session);
    if (state === "closing") return;
    expect(await second.turn(session, "echo next")).toMatchObject({ outcome: "completed", text: "next\n" });
    expect((await second.session(session)).runId).not.toBe(runId);
    await second.acp.closeSession(session, { actor: "test" });
    await second.gone(session);
  },
);

test("a prompt that comes while its agent is on its way out waits for the next one", async () => {
  const house = await Controlled.open({ leaveMs: 1_500 });
  const session = await house.spawn(misbehaving("answers-and-closes-stdout"));
  const { runId } = await house.session(session);
  const run = house.supervisor.run(runId ?? "") ?? expect.fail("no agent");
  expect(await house.turn(session, "go")).toMatchObject({ outcome: "completed" });
  // Its output has ended; its process has not.
  for await (const { stream } of run.follow({ streams: ["stdout"] })) expect(stream).toBe("stdout");
  expect(await house.turn(session, "go")).toMatchObject({ outcome: "completed", ordinal: 2 });
  expect((await house.session(session)).runId).not.toBe(runId);
  await house.acp.closeSession(session, { actor: "test" });
  await house.gone(session);
});
