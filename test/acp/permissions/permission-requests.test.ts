import { expect, test } from "vitest";
import { agentEntrySchema } from "../../../src/config/agents.js";
import { AcpFixture, openAcpSession, shellAgent } from "../../support/agents/acp-fixture.js";

const ASK = [{ effect: "ask" as const }];

test("an operator decides a request once, by option id, and the event log has the decision", async () => {
  const { fixture, session } = await openAcpSession(shellAgent(), { rules: ASK });
  const turn = await fixture.prompt(session, "ask echo allowed");
  const { id, title, kind, decision } = await fixture.pendingPermission(session);
  expect({ title, kind, decision }).toEqual({ title: "echo allowed", kind: "execute", decision: null });
  const answers = await Promise.all([
    fixture.acp.answerPermission(id, "allow", "ada"),
    fixture.acp.answerPermission(id, "deny", "bob"),
  ]);
  expect(answers.filter((each) => each?.decided === true)).toHaveLength(1);
  const ended = await fixture.waitForTurnEnd(turn);
  expect(ended.text).toMatch(/^<(yes|no)>/);
  const events = await fixture.supervisor.listEvents({});
  const decided = events.filter(({ type }) => type === "permission");
  expect(decided).toHaveLength(1);
  expect(decided[0]?.data).toMatchObject({ permissionId: id, title: "echo allowed", kind: "execute" });
});

test("a request is denied when it expires or by a rule, and a cancel answers open requests", async () => {
  const fixture = await AcpFixture.open({ permissionMs: 300 });
  const session = await fixture.spawn(shellAgent(), {
    rules: [{ effect: "reject", title: "rm *" }, { effect: "ask" }],
  });
  expect(await fixture.promptAndWait(session, "ask echo late")).toMatchObject({ text: "<no>" });
  expect(await fixture.promptAndWait(session, "ask rm everything")).toMatchObject({ text: "<no>" });
  const verdicts = (await fixture.store.listAcpPermissionRequests({ sessionId: session })).map(
    ({ decision }) => [decision?.verdict, decision?.actor],
  );
  expect(verdicts).toEqual([
    ["expired", "nobody answered in time"],
    ["deny", "rule 1"],
  ]);
  await fixture.close(session);

  const patient = await fixture.spawn(shellAgent(), { rules: ASK, key: "two" });
  const turn = await fixture.prompt(patient, "ask echo never");
  await fixture.pendingPermission(patient);
  await fixture.cancel(patient);
  const ended = await fixture.waitForTurnEnd(turn);
  expect(ended).toMatchObject({ outcome: "cancelled" });
  expect(await fixture.store.listAcpPermissionRequests({ sessionId: patient, pending: true })).toEqual([]);
});

test("a request outlives its gateway, and the next gateway answers a decided one", async () => {
  const { fixture, session } = await openAcpSession(shellAgent(), { rules: ASK });
  const turn = await fixture.prompt(session, "ask echo allowed");
  const { id } = await fixture.pendingPermission(session);
  const second = await fixture.restart();
  await expect(second.acp.answerPermission(id, "allow", "ada")).rejects.toThrow("does not show the whole");
  expect(await second.allowPermission(id)).toBe(true);
  expect(await second.waitForTurnEnd(turn)).toMatchObject({ outcome: "completed", text: "<yes>allowed\n" });

  const again = await second.prompt(session, "ask echo decided");
  const { id: other } = await second.pendingPermission(session);
  await second.detach();
  // As if it had died between the decision and the answer.
  const { store } = await AcpFixture.open({}, { home: fixture.home, instanceId: "in_else" });
  const decision = { verdict: "allow", optionId: "yes", actor: "ada", at: 1 } as const;
  expect(
    await store.commitAcpChange(session, "in_acp", { decide: [{ id: other, decision }] }),
  ).not.toBeNull();
  const third = await second.restart();
  expect(await third.waitForTurnEnd(again)).toMatchObject({ outcome: "completed", text: "<yes>decided\n" });
});

test("a request that ends with its agent is in the event log and in the updates", async () => {
  const { fixture, session } = await openAcpSession(shellAgent(), { rules: ASK });
  const turn = await fixture.prompt(session, "ask echo never");
  const { id } = await fixture.pendingPermission(session);
  await fixture.signalAgent(session);
  await fixture.waitForTurnEnd(turn);
  const decision = { verdict: "expired", actor: "the agent has ended" };
  expect(await fixture.store.getAcpPermissionRequest(id)).toMatchObject({ decision });
  const events = await fixture.supervisor.listEvents({});
  expect(events.filter(({ type }) => type === "permission").map(({ data }) => data)).toMatchObject([
    { permissionId: id, ...decision },
  ]);
  const updates = await fixture.store.listAcpUpdates({ sessionId: session });
  const told = updates.filter(({ type }) => type === "permission").map(({ data }) => data);
  expect(told).toMatchObject([
    { id, decision: null },
    { id, decision },
  ]);
});

test("a request that offers only allow_always is cancelled, not allowed", async () => {
  const { fixture, session } = await openAcpSession(shellAgent("forever"), { rules: ASK });
  const turn = await fixture.prompt(session, "ask echo never");
  const { id } = await fixture.pendingPermission(session);
  const answer = await fixture.acp.answerPermission(id, "allow", "ada");
  expect(answer).toMatchObject({
    decided: true,
    permission: { decision: { verdict: "cancelled", optionId: null, actor: "ada" } },
  });
  expect(await fixture.waitForTurnEnd(turn)).toMatchObject({ text: "<cancelled>" });
});

test("an operator chooses one of the agent's options by its id, and an option of another verdict is refused", async () => {
  const { fixture, session } = await openAcpSession(shellAgent(), { rules: ASK });
  const turn = await fixture.prompt(session, "ask echo always");
  const { id } = await fixture.pendingPermission(session);
  for (const [verdict, optionId] of [
    ["deny", "always"],
    ["allow", "none"],
  ] as const)
    await expect(fixture.acp.answerPermission(id, verdict, "ada", { optionId })).rejects.toThrow(
      `has no option "${optionId}" to ${verdict} it`,
    );
  expect(await fixture.acp.answerPermission(id, "allow", "ada", { optionId: "always" })).toMatchObject({
    decided: true,
    permission: { decision: { verdict: "allow", optionId: "always" } },
  });
  expect(await fixture.waitForTurnEnd(turn)).toMatchObject({ text: "<always>" });
});

test("rules of the config decide for sessions with the default rules, and their denials for every session", async () => {
  const fixture = await AcpFixture.open(
    {},
    {
      permissionRules: [
        { effect: "allow", kind: "execute", title: "echo *" },
        { effect: "deny", title: "echo secret" },
      ],
    },
  );
  const plain = await fixture.spawn(shellAgent());
  expect(await fixture.promptAndWait(plain, "ask echo one")).toMatchObject({ text: "<yes>one\n" });
  expect(await fixture.promptAndWait(plain, "ask echo secret")).toMatchObject({ text: "<no>" });
  const open = await fixture.spawn(shellAgent(), { key: "two", rules: [{ effect: "allow" }] });
  expect(await fixture.promptAndWait(open, "ask echo secret")).toMatchObject({ text: "<no>" });
  const [decided] = await fixture.store.listAcpPermissionRequests({ sessionId: open });
  expect(decided).toMatchObject({ rule: null, decision: { actor: "rule 2 of the config" } });
});

test("a remembered answer decides later requests of the same title, until its rule is revoked", async () => {
  const { fixture, session } = await openAcpSession(shellAgent(), { rules: ASK });
  const turn = await fixture.prompt(session, "ask echo *");
  const { id } = await fixture.pendingPermission(session);
  const remember = { scope: "session" } as const;
  await expect(
    fixture.acp.answerPermission(id, "allow", "ada", { remember: { scope: "agent" } }),
  ).rejects.toThrow("not in the catalogue");
  expect(await fixture.acp.answerPermission(id, "allow", "ada", { remember })).toMatchObject({
    decided: true,
  });
  await fixture.waitForTurnEnd(turn);
  // An answer that comes too late leaves no rule.
  await fixture.acp.answerPermission(id, "deny", "bob", { remember });
  const [rule, ...others] = await fixture.store.listRememberedRules({ sessionId: session });
  expect(rule).toMatchObject({
    effect: "allow",
    kind: "execute",
    title: "echo *",
    exact: true,
    actor: "ada",
  });
  expect(others).toEqual([]);

  const second = await fixture.restart();
  expect(await second.promptAndWait(session, "ask echo *")).toMatchObject({
    text: expect.stringMatching(/^<yes>/) as string,
  });
  const other = await second.prompt(session, "ask echo two");
  const { id: next } = await second.pendingPermission(session);
  await second.acp.answerPermission(next, "deny", "ada", {
    remember: { scope: "session", title: "echo t*" },
  });
  expect(await second.waitForTurnEnd(other)).toMatchObject({ text: "<no>" });
  expect(await second.promptAndWait(session, "ask echo three")).toMatchObject({ text: "<no>" });
  expect(await second.store.revokeRememberedRule(rule?.id ?? "", "ada", 1)).toBe(true);
  const asked = await second.prompt(session, "ask echo *");
  expect(await second.pendingPermission(session)).toMatchObject({ title: "echo *", decision: null });
  await second.cancel(session);
  await second.waitForTurnEnd(asked);
});

test("an answer for an agent is remembered for its other sessions; if only allow_always is offered, it is chosen", async () => {
  const entry = { id: "shelly", acp: { argv: shellAgent("forever") } };
  const fixture = await AcpFixture.open({}, { agents: [agentEntrySchema.parse(entry)] });
  const spawn = async (key: string) => {
    const environment = { PATH: process.env["PATH"] ?? "" };
    const request = { key, agent: "shelly", cwd: fixture.home, environment };
    return (await fixture.acp.ensureSession(request)).session.sessionId;
  };
  const one = await spawn("one");
  const turn = await fixture.prompt(one, "ask echo hi");
  const { id } = await fixture.pendingPermission(one);
  await fixture.acp.answerPermission(id, "allow", "ada", { remember: { scope: "agent" } });
  expect(await fixture.waitForTurnEnd(turn)).toMatchObject({ text: "<always>" });
  const [rule] = await fixture.store.listRememberedRules({ agent: "shelly" });
  const two = await spawn("two");
  // The rule answers once; this agent does not offer that.
  await fixture.promptAndWait(two, "ask echo hi");
  const [decided] = await fixture.store.listAcpPermissionRequests({ sessionId: two });
  expect(decided).toMatchObject({ decision: { verdict: "cancelled", actor: `rule ${rule?.id ?? ""}` } });
});
