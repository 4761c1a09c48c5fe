import { join } from "node:path";
import { expect, test } from "vitest";
import { AcpFixture, featureAgent, misbehavingAgent } from "../support/agents/acp-fixture.js";

test("an agent that needs a login is named as the reason why its session is closed", async () => {
  const fixture = await AcpFixture.open();
  const spawning = fixture.spawn(featureAgent(`login=${join(fixture.home, "never")}`));
  await expect(spawning).rejects.toMatchObject({
    code: "ACP_AUTH_REQUIRED",
    authMethods: ["browser", "broken"],
  });
  const [session] = await fixture.store.listAcpSessions({});
  expect(session).toMatchObject({ state: "closed", problem: { code: "ACP_AUTH_REQUIRED" } });
  expect(session?.problem?.message).toContain("Log in with a browser (browser): Opens a page");
  await fixture.waitForAgentExit(session!.sessionId);
});

test("any failure of the start is the problem of the closed session", async () => {
  const fixture = await AcpFixture.open({ newSessionMs: 300 });
  await expect(fixture.spawn(misbehavingAgent("never-new"))).rejects.toMatchObject({ code: "ACP_TIMEOUT" });
  const [session] = await fixture.store.listAcpSessions({});
  expect(session).toMatchObject({ state: "closed" });
  expect(session?.problem?.message).toContain("session/new");
});

test("a login that expires fails the turn with the agent's words, and the agent stays", async () => {
  const fixture = await AcpFixture.open();
  const session = await fixture.spawn(featureAgent());
  const turn = await fixture.promptAndWait(session, "expired");
  expect(turn).toMatchObject({ outcome: "failed", problem: { code: "ACP_AUTH_REQUIRED" } });
  expect(turn.problem?.message).toContain("Authentication required: the token has expired");
  expect(await fixture.promptAndWait(session, "hello")).toMatchObject({ outcome: "completed" });
  await fixture.close(session);
  expect(await fixture.session(session)).toMatchObject({ state: "closed", problem: null });
});
