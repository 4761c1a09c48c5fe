import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { AcpFixture, shellAgent } from "../support/agents/acp-fixture.js";
import { misbehavingAgent } from "../support/agents/adapter-fixture.js";

test("a live agent that is not owned yet gets no second agent beside it", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent());
  const pid = await fixture.pid(session);
  const turn = await fixture.prompt(session, "echo on; sleep 3106");
  await fixture.waitForText(turn, "on");
  const second = await fixture.restart({}, { blind: true });
  const refused = { code: "ACP_NOT_HELD", sessionId: session };
  await expect(second.prompt(session, "echo early")).rejects.toMatchObject(refused);
  await expect(second.acp.closeSession(session, { actor: "test" })).rejects.toMatchObject(refused);
  const { runs } = await second.supervisor.reconcile();
  // Asked while it is being taken up.
  const [next] = await Promise.all([second.prompt(session, "echo next"), second.acp.resumeSessionsOf(runs)]);
  expect(await second.acp.cancelTurn(session, { actor: "test" })).toMatchObject({
    turnId: turn.turnId,
    outcome: "cancelled",
  });
  expect(await second.waitForTurnEnd(next)).toMatchObject({ outcome: "completed", text: "next\n" });
  expect(await second.pid(session)).toBe(pid);
  expect(await second.supervisor.listRuns({ sessionId: session })).toHaveLength(1);
  await second.acp.closeSession(session, { actor: "test" });
  await second.waitForAgentExit(session);
});

test("an agent whose end is found later interrupts its turn, and the session continues", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent("resume"));
  const turn = await fixture.prompt(session, "echo on; sleep 3106");
  await fixture.waitForText(turn, "on");
  const { runId } = await fixture.session(session);
  const second = await fixture.restart({}, { blind: true });
  await second.supervisor.stop(runId ?? "");
  const { runs } = await second.supervisor.reconcile();
  await second.acp.resumeSessionsOf(runs);
  expect(await second.waitForTurnEnd(turn)).toMatchObject({ outcome: "interrupted", text: "on\n" });
  expect(await second.promptAndWait(session, "echo next")).toMatchObject({
    outcome: "completed",
    text: "next\n",
  });
  await second.acp.closeSession(session, { actor: "test" });
  await second.waitForAgentExit(session);
});

test("the problem of a session stays after a restart", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(shellAgent());
  const { runId } = await fixture.session(session);
  await fixture.supervisor.stop(runId ?? "");
  await fixture.waitFor(session, async () => (await fixture.session(session)).state === "down");
  const { problem } = await fixture.session(session);
  expect(problem).toMatchObject({ code: "ACP_CLOSED" });
  const second = await fixture.restart();
  expect(await second.session(session)).toMatchObject({ state: "down", problem });
  await second.acp.closeSession(session, { actor: "test" });
});

test.each(["starting", "closing"] as const)(
  "an agent that was %s when its gateway died is stopped and its TMPDIR removed",
  async (state) => {
    const fixture = await AcpFixture.open();
    const session = await fixture.spawn(shellAgent());
    const { runId, tmpdir } = await fixture.session(session);
    await fixture.detach();
    const { store } = await AcpFixture.open({}, { home: fixture.home, instanceId: "in_else" });
    await store.commitAcpChange(session, "in_acp", { session: { state } });
    const second = await fixture.restart();
    await second.waitFor(
      session,
      async () => (await second.session(session)).state === (state === "starting" ? "down" : "closed"),
    );
    expect(existsSync(tmpdir ?? "/")).toBe(false);
    await second.waitForAgentExit(session);
    if (state === "closing") return;
    expect(await second.promptAndWait(session, "echo next")).toMatchObject({
      outcome: "completed",
      text: "next\n",
    });
    expect((await second.session(session)).runId).not.toBe(runId);
    await second.acp.closeSession(session, { actor: "test" });
    await second.waitForAgentExit(session);
  },
);

test("a prompt during the exit of the agent goes to the next agent", async () => {
  const fixture = await AcpFixture.open({ ownExitMs: 1_500 });
  const session = await fixture.spawn(misbehavingAgent("answers-and-closes-stdout"));
  const { runId } = await fixture.session(session);
  const run = fixture.supervisor.run(runId ?? "") ?? expect.fail("no agent");
  expect(await fixture.promptAndWait(session, "go")).toMatchObject({ outcome: "completed" });
  // Its output has ended; its process has not.
  for await (const { stream } of run.follow({ streams: ["stdout"] })) expect(stream).toBe("stdout");
  expect(await fixture.promptAndWait(session, "go")).toMatchObject({ outcome: "completed", ordinal: 2 });
  expect((await fixture.session(session)).runId).not.toBe(runId);
  await fixture.acp.closeSession(session, { actor: "test" });
  await fixture.waitForAgentExit(session);
});
