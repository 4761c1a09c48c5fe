import { expect, test } from "vitest";
import type { AcpPermission } from "../../src/store/acp-record.js";
import { Controlled, shellAgent } from "./controlled.js";

const ASK = [{ effect: "ask" as const }];

function pending(house: Controlled, session: string): Promise<AcpPermission> {
  return house.until(session, async () => {
    const [permission] = await house.store.listAcpPermissions({ sessionId: session, pending: true });
    return permission;
  });
}

test("an operator is asked, and the answer is chosen by option id, once; it is in the event log", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent(), { rules: ASK });
  const turn = await house.ask(session, "ask echo allowed");
  const { id, title, kind, decision } = await pending(house, session);
  expect({ title, kind, decision }).toEqual({ title: "echo allowed", kind: "execute", decision: null });
  const answers = await Promise.all([
    house.acp.answerPermission(id, "allow", "ada"),
    house.acp.answerPermission(id, "deny", "bob"),
  ]);
  expect(answers.filter((each) => each?.decided === true)).toHaveLength(1);
  const ended = await house.ended(turn);
  expect(ended.text).toMatch(/^<(yes|no)>/);
  const events = await house.supervisor.listEvents({});
  const decided = events.filter(({ type }) => type === "permission");
  expect(decided).toHaveLength(1);
  expect(decided[0]?.data).toMatchObject({ permissionId: id, title: "echo allowed", kind: "execute" });
  await house.acp.closeSession(session, { actor: "test" });
});

test("nobody answers: no; a rule says so at once; a cancel answers what is open", async () => {
  const house = await Controlled.open({ permissionMs: 300 });
  const session = await house.spawn(shellAgent(), {
    rules: [{ effect: "reject", title: "rm *" }, { effect: "ask" }],
  });
  expect(await house.turn(session, "ask echo late")).toMatchObject({ text: "<no>" });
  expect(await house.turn(session, "ask rm everything")).toMatchObject({ text: "<no>" });
  const verdicts = (await house.store.listAcpPermissions({ sessionId: session })).map(({ decision }) => [
    decision?.verdict,
    decision?.actor,
  ]);
  expect(verdicts).toEqual([
    ["expired", "nobody answered in time"],
    ["deny", "rule 1"],
  ]);
  await house.acp.closeSession(session, { actor: "test" });

  const patient = await house.spawn(shellAgent(), { rules: ASK, key: "two" });
  const turn = await house.ask(patient, "ask echo never");
  await pending(house, patient);
  await house.acp.cancelTurn(patient, { actor: "test" });
  const ended = await house.ended(turn);
  expect(ended).toMatchObject({ outcome: "cancelled" });
  expect(await house.store.listAcpPermissions({ sessionId: patient, pending: true })).toEqual([]);
  await house.acp.closeSession(patient, { actor: "test" });
});

test("a question outlives the gateway that was asked; one that was decided is answered by the next", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent(), { rules: ASK });
  const turn = await house.ask(session, "ask echo allowed");
  const { id } = await pending(house, session);
  const second = await house.restart();
  await expect(second.acp.answerPermission(id, "allow", "ada")).rejects.toThrow("does not show the whole");
  expect(await second.allow(id)).toBe(true);
  expect(await second.ended(turn)).toMatchObject({ outcome: "completed", text: "<yes>allowed\n" });

  const again = await second.ask(session, "ask echo decided");
  const { id: other } = await pending(second, session);
  await second.leave();
  // As if it had died between the decision and the answer.
  const { store } = await Controlled.open({}, { home: house.home, instanceId: "in_else" });
  const decision = { verdict: "allow", optionId: "yes", actor: "ada", at: 1 } as const;
  expect(await store.commitAcp(session, "in_acp", { decide: [{ id: other, decision }] })).not.toBeNull();
  const third = await second.restart();
  expect(await third.ended(again)).toMatchObject({ outcome: "completed", text: "<yes>decided\n" });
  await third.acp.closeSession(session, { actor: "test" });
  await third.gone(session);
});

test("a question that ends with its agent is in the event log, and told like every other", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent(), { rules: ASK });
  const turn = await house.ask(session, "ask echo never");
  const { id } = await pending(house, session);
  process.kill(await house.pid(session), "SIGKILL");
  await house.ended(turn);
  const decision = { verdict: "expired", actor: "the agent has ended" };
  expect(await house.store.getAcpPermission(id)).toMatchObject({ decision });
  const events = await house.supervisor.listEvents({});
  expect(events.filter(({ type }) => type === "permission").map(({ data }) => data)).toMatchObject([
    { permissionId: id, ...decision },
  ]);
  const updates = await house.store.listAcpUpdates({ sessionId: session });
  const told = updates.filter(({ type }) => type === "permission").map(({ data }) => data);
  expect(told).toMatchObject([
    { id, decision: null },
    { id, decision },
  ]);
  await house.acp.closeSession(session, { actor: "test" });
});

test("who allows what can only be allowed for good has not allowed it, and it is not said", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent("forever"), { rules: ASK });
  const turn = await house.ask(session, "ask echo never");
  const { id } = await pending(house, session);
  const answer = await house.acp.answerPermission(id, "allow", "ada");
  expect(answer).toMatchObject({
    decided: true,
    permission: { decision: { verdict: "cancelled", optionId: null, actor: "ada" } },
  });
  expect(await house.ended(turn)).toMatchObject({ text: "<cancelled>" });
  await house.acp.closeSession(session, { actor: "test" });
});

test("a title without end is kept as far as somebody would read it", async () => {
  const house = await Controlled.open();
  const session = await house.spawn(shellAgent(), {
    rules: [{ effect: "allow", title: "true *" }, { effect: "reject" }],
  });
  const turn = await house.turn(session, `ask true ${"x".repeat(500_000)} the end`);
  expect(turn.text).toBe("<no>");
  const [asked] = await house.store.listAcpPermissions({ sessionId: session });
  expect(asked?.title).toMatch(/^true x{5000,}…$/);
  expect(asked?.title?.length).toBeLessThan(20_000);
  await house.acp.closeSession(session, { actor: "test" });
});
