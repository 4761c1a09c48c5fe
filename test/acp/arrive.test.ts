import { expect, test } from "vitest";
import { Controlled, shellAgent } from "./controlled.js";

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
