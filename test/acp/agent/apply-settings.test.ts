import { expect, test } from "vitest";
import { AcpFixture, openAcpSession, settableAgent } from "../../support/agents/acp-fixture.js";

async function settingsOf(fixture: AcpFixture, session: string): Promise<Record<string, unknown>> {
  const { outcome, text } = await fixture.promptAndWait(session, "report");
  expect(outcome).toBe("completed");
  return JSON.parse(text) as Record<string, unknown>;
}

test("settings are made at the start, in an order in which the agent offers them", async () => {
  const settings = { options: { effort: "high", web: "on" }, mode: "Plan", model: "large" };
  const { fixture, session } = await openAcpSession(settableAgent(), { settings });
  expect(await settingsOf(fixture, session)).toMatchObject({
    ...{ model: "large", mode: "plan", effort: "high", web: true },
  });
  const { agentState } = await fixture.session(session);
  expect(agentState?.options.map(({ id, current }) => `${id}=${current}`)).toEqual([
    "model=large",
    "mode=plan",
    "effort=high",
    "web=true",
  ]);
  expect(agentState).toMatchObject({
    commands: [{ name: "plan" }, { name: "review" }],
    usage: { used: 1200, size: 200_000, cost: { amount: 0.25, currency: "USD" } },
  });
});

test("a setting that the agent does not offer opens no session", async () => {
  const fixture = await AcpFixture.open();
  const wrong = fixture.spawn(settableAgent(), { settings: { model: "huge" } });
  await expect(wrong).rejects.toMatchObject({
    code: "BAD_INPUT",
    message: expect.stringContaining("it offers small, large") as string,
  });
  const [row] = await fixture.store.listAcpSessions({});
  expect(row).toMatchObject({ state: "closed" });
  const nothing = fixture.spawn(settableAgent("none"), { settings: { mode: "plan" } });
  await expect(nothing).rejects.toThrow("the agent offers no choice of modes");
});

test("settings change later, with the older lists of models and modes too", async () => {
  const { fixture, session } = await openAcpSession(settableAgent("old"));
  const { agentState, settings } = await fixture.acp.setSettings(
    session,
    { model: "large", mode: "code" },
    "ada",
  );
  expect(settings).toEqual({ model: "large", mode: "code" });
  expect(agentState).toMatchObject({ models: { current: "large" }, modes: { current: "code" } });
  expect(await settingsOf(fixture, session)).toMatchObject({ model: "large", mode: "code" });
  await fixture.promptAndWait(session, "mode ask");
  expect((await fixture.session(session)).agentState?.modes?.current).toBe("ask");
  const updates = await fixture.store.listAcpUpdates({ sessionId: session, type: "settings" });
  expect(updates.map(({ data }) => data)).toEqual([{ model: "large", mode: "code", actor: "ada" }]);
});

test("settings before a refused one stay, and are made again after a restart", async () => {
  const { fixture, session } = await openAcpSession(settableAgent());
  const change = fixture.acp.setSettings(session, { model: "large", options: { effort: "huge" } }, "ada");
  await expect(change).rejects.toMatchObject({ code: "BAD_INPUT" });
  expect((await fixture.session(session)).settings).toEqual({ model: "large" });
  const updates = await fixture.store.listAcpUpdates({ sessionId: session, type: "settings" });
  expect(updates.map(({ data }) => data)).toEqual([{ model: "large", actor: "ada" }]);
  await fixture.signalAgent(session);
  await fixture.waitForState(session, "down");
  expect(await settingsOf(fixture, session)).toMatchObject({ model: "large", effort: "low" });
});

test("a refused change is an error and is not remembered", async () => {
  const { fixture, session } = await openAcpSession(settableAgent("deaf"));
  const change = fixture.acp.setSettings(session, { model: "large" }, "ada");
  await expect(change).rejects.toMatchObject({ code: "ACP_REFUSED" });
  expect(await fixture.session(session)).toMatchObject({ settings: null, state: "ready" });
});

test("a restarted agent gets its settings again", async () => {
  const { fixture, session } = await openAcpSession(settableAgent("old"), { settings: { model: "large" } });
  await fixture.acp.setSettings(session, { mode: "plan" }, "ada");
  await fixture.signalAgent(session);
  await fixture.waitForState(session, "down");
  expect(await settingsOf(fixture, session)).toMatchObject({ model: "large", mode: "plan", turns: 1 });
});

test("a restarted agent that no longer offers a setting continues without it, and says so", async () => {
  const fixture = await AcpFixture.open();
  const environment = { PATH: process.env["PATH"] ?? "", AGENT_SESSIONS: `${fixture.home}/own` };
  const settings = { model: "large", mode: "plan" };
  const session = await fixture.spawn(settableAgent("fewer"), { environment, settings });
  await fixture.promptAndWait(session, "one");
  await fixture.acp.setSettings(session, { mode: "code" }, "ada");
  await fixture.promptAndWait(session, "mode ask");
  await fixture.acp.setSettings(session, { options: { model: "small" } }, "ada");
  await fixture.signalAgent(session);
  await fixture.waitForState(session, "down");
  expect(await settingsOf(fixture, session)).toMatchObject({ model: "small", mode: "code", turns: 3 });
  const updates = await fixture.store.listAcpUpdates({ sessionId: session, type: "settings" });
  expect(updates.at(-1)?.data).toMatchObject({
    refused: [expect.stringContaining('does not offer --model "large": it offers small') as string],
  });
});
