import { expect, test } from "vitest";
import { AcpFixture, openAcpSession, scriptedAgent } from "../../support/agents/acp-fixture.js";

const FORM = {
  message: "Where to?",
  requestedSchema: {
    type: "object",
    properties: {
      port: { type: "integer", minimum: 1, maximum: 65_535 },
      stage: { type: "string", enum: ["test", "live"], default: "test" },
    },
    required: ["port"],
  },
};
const ask = (question: object = FORM): string => JSON.stringify([{ elicit: question }, { say: "!" }]);

test("a question with a form waits, also over a restart, until an answer fits the form", async () => {
  const { fixture, session } = await openAcpSession(scriptedAgent);
  const turn = await fixture.prompt(session, ask());
  const { id, title, kind } = await fixture.pendingPermission(session);
  expect({ title, kind }).toEqual({ title: "Where to?", kind: "elicitation" });
  const second = await fixture.restart();
  const permission = (await second.store.getAcpPermissionRequest(id)) ?? expect.fail("it is not stored");
  expect(second.acp.elicitationOf(permission)?.fields.map(({ name }) => name)).toEqual(["port", "stage"]);
  const parts = [...((await second.acp.questionOf(permission))?.parts() ?? [])];
  expect(parts.map(({ label }) => label)).toEqual(["question", "field port", "field stage"]);
  for (const [content, why] of [
    [{}, '"port" is required'],
    [{ port: "many" }, "is not an integer"],
    [{ port: 0 }, "needs at least 1"],
    [{ port: 80, stage: "prod" }, "is not one of test, live"],
    [{ port: 80, speed: 1 }, "has no field"],
  ] as const)
    await expect(second.acp.answerPermission(id, "allow", "ada", { content })).rejects.toThrow(why);
  await expect(second.acp.answerPermission(id, "allow", "ada", { optionId: "accept" })).rejects.toThrow(
    "question to the user",
  );
  const answer = await second.acp.answerPermission(id, "allow", "ada", { content: { port: "8080" } });
  expect(answer).toMatchObject({
    decided: true,
    permission: { decision: { verdict: "allow", actor: "ada" } },
  });
  const ended = await second.waitForTurnEnd(turn);
  expect(ended.text).toBe('<accept {"port":8080,"stage":"test"}>!');
  expect((await second.acp.answerPermission(id, "deny", "bob"))?.decided).toBe(false);
  const updates = await second.store.listAcpUpdates({ sessionId: session, type: "elicitation" });
  expect(updates.map(({ data }) => data)).toMatchObject([
    { permissionId: id, asked: { message: "Where to?" } },
    { permissionId: id, content: { port: 8080, stage: "test" } },
  ]);
});

test("the next gateway sends an answer that was decided and not sent", async () => {
  const { fixture, session } = await openAcpSession(scriptedAgent);
  const turn = await fixture.prompt(session, ask());
  const { id } = await fixture.pendingPermission(session);
  await fixture.detach();
  // As if it had died between the decision and the answer.
  const { store } = await AcpFixture.open({}, { home: fixture.home, instanceId: "in_else" });
  const decision = { verdict: "allow", optionId: "accept", actor: "ada", at: 1 } as const;
  const data = { permissionId: id, content: { port: 80 } };
  const update = { turnId: turn.turnId, at: 1, type: "elicitation", data } as const;
  const change = { decide: [{ id, decision }], updates: [update] };
  expect(await store.commitAcpChange(session, "in_acp", change)).not.toBeNull();
  const second = await fixture.restart();
  expect((await second.waitForTurnEnd(turn)).text).toBe('<accept {"port":80}>!');
});

test("a question is declined when nobody answers, denied by a rule or by the operator, and cancelled with its turn", async () => {
  const fixture = await AcpFixture.open({ permissionMs: 300 });
  const session = await fixture.spawn(scriptedAgent);
  expect((await fixture.promptAndWait(session, ask())).text).toBe("<decline>!");
  await fixture.close(session);

  const strict = await fixture.spawn(scriptedAgent, { key: "strict", rules: [{ effect: "reject" }] });
  expect((await fixture.promptAndWait(strict, ask())).text).toBe("<decline>!");
  await fixture.close(strict);

  const patient = await fixture.restart();
  const next = await patient.spawn(scriptedAgent, { key: "next", rules: [{ effect: "allow" }] });
  const declined = await patient.prompt(next, ask());
  // A rule that allows cannot answer.
  const { id } = await patient.pendingPermission(next);
  expect((await patient.acp.answerPermission(id, "deny", "ada"))?.decided).toBe(true);
  expect((await patient.waitForTurnEnd(declined)).text).toBe("<decline>!");
  const dismissed = await patient.prompt(next, ask());
  const other = await patient.pendingPermission(next);
  expect((await patient.acp.answerPermission(other.id, "cancelled", "ada"))?.decided).toBe(true);
  expect((await patient.waitForTurnEnd(dismissed)).text).toBe("<cancel>!");
  const cancelled = await patient.prompt(next, ask());
  await patient.pendingPermission(next);
  await patient.cancel(next);
  expect(await patient.waitForTurnEnd(cancelled)).toMatchObject({ outcome: "cancelled" });
});

test("an address is shown whole and accepted without values, and a question that cannot be shown is declined at once", async () => {
  const { fixture, session } = await openAcpSession(scriptedAgent);
  const url = { mode: "url", elicitationId: "e1", message: "Log in at", url: "https://exämple.test/in?a=1" };
  const turn = await fixture.prompt(session, ask(url));
  const permission = await fixture.pendingPermission(session);
  expect(permission.title).toBe("Log in at https://xn--exmple-cua.test/in?a=1");
  await fixture.acp.answerPermission(permission.id, "allow", "ada");
  expect((await fixture.waitForTurnEnd(turn)).text).toBe("<accept>!");

  const nested = { type: "object", properties: { more: { type: "object" } } };
  for (const unknown of [
    { message: "Which?", requestedSchema: nested },
    { ...url, url: "file:///etc/passwd" },
    { message: "x".repeat(20_000), requestedSchema: { type: "object", properties: {} } },
  ])
    expect((await fixture.promptAndWait(session, ask(unknown))).text).toBe("<decline>!");
  const updates = await fixture.store.listAcpUpdates({ sessionId: session, type: "elicitation" });
  expect(updates.slice(1).map(({ data }) => data)).toMatchObject([
    { message: "Which?", mode: "form", url: null, action: "decline" },
    { url: "file:///etc/passwd", action: "decline" },
    { action: "decline" },
  ]);
});
