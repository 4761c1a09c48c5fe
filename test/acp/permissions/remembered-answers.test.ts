import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type AcpFixture, openAcpSession, scriptedAgent } from "../../support/agents/acp-fixture.js";
import { scriptedPrompt, toolStep } from "../../support/agents/scripted-agent.js";

const RULES = [{ effect: "ask" }] as const;
const TITLE = "as asked";
/** Like an agent whose titles are descriptions. */
const asking = (command: string, more: object = {}): string =>
  scriptedPrompt({ ask: { title: TITLE, rawInput: { command, ...more } } });

async function allowAlways({ store, acp }: AcpFixture, id: string): Promise<void> {
  const permission = (await store.getAcpPermissionRequest(id)) ?? expect.fail("there is no such request");
  const digest = (await acp.questionOf(permission))?.digest;
  const remember = { scope: "session" } as const;
  expect(await acp.answerPermission(id, "allow", "ada", { digest, remember })).toMatchObject({
    decided: true,
  });
}

async function expectAsked(fixture: AcpFixture, session: string, prompt: string): Promise<void> {
  const turn = await fixture.prompt(session, prompt);
  expect(await fixture.pendingPermission(session)).toMatchObject({ title: TITLE });
  await fixture.cancel(session);
  await fixture.waitForTurnEnd(turn);
}

test("another command with the title of an allowed one is asked about, also if the gateway restarts before the answer", async () => {
  const { fixture: first, session } = await openAcpSession(scriptedAgent, { rules: RULES });
  const turn = await first.prompt(session, asking("echo one", { call_id: "c1" }));
  const { id } = await first.pendingPermission(session);
  const second = await first.restart();
  await allowAlways(second, id);
  expect(await second.waitForTurnEnd(turn)).toMatchObject({ text: "<yes>" });
  const same = asking("echo one", { call_id: "c2" });
  expect(await second.promptAndWait(session, same)).toMatchObject({ text: "<yes>" });
  await expectAsked(second, session, asking("echo two", { call_id: "c1" }));

  const third = await second.restart();
  expect(await third.promptAndWait(session, same)).toMatchObject({ text: "<yes>" });
  await expectAsked(third, session, asking("echo two"));
  await expectAsked(third, session, scriptedPrompt({ ask: TITLE }));
});

test("a command that only an earlier update names is compared, also if the gateway restarts before the request", async () => {
  const { fixture: first, session } = await openAcpSession(scriptedAgent, { rules: RULES });
  const file = join(first.home, "go");
  const prompt = (command: string): string =>
    scriptedPrompt(
      toolStep("t1", "pending", { title: TITLE, kind: "execute", rawInput: { command } }),
      ...[{ say: "." }, { wait: file }, { ask: { toolCallId: "t1", title: TITLE } }],
    );
  const turn = await first.promptUntil(session, prompt("echo one"), ".");
  const second = await first.restart();
  writeFileSync(file, "");
  await allowAlways(second, (await second.pendingPermission(session)).id);
  expect(await second.waitForTurnEnd(turn)).toMatchObject({ text: ".<yes>" });
  expect(await second.promptAndWait(session, prompt("echo one"))).toMatchObject({ text: ".<yes>" });
  expect(await second.promptAndWait(session, asking("echo one"))).toMatchObject({ text: "<yes>" });
  await expectAsked(second, session, prompt("echo two"));
});

test("an answer to a request that named no command does not allow one that does, and a denial is for its command only", async () => {
  const { fixture, session } = await openAcpSession(scriptedAgent, { rules: RULES });
  const turn = await fixture.prompt(session, scriptedPrompt({ ask: TITLE }));
  await allowAlways(fixture, (await fixture.pendingPermission(session)).id);
  await fixture.waitForTurnEnd(turn);
  expect(await fixture.promptAndWait(session, scriptedPrompt({ ask: TITLE }))).toMatchObject({
    text: "<yes>",
  });
  const again = await fixture.prompt(session, asking("echo one"));
  const { id } = await fixture.pendingPermission(session);
  await fixture.acp.answerPermission(id, "deny", "ada", { remember: { scope: "session" } });
  expect(await fixture.waitForTurnEnd(again)).toMatchObject({ text: "<no>" });
  expect(await fixture.promptAndWait(session, asking("echo one"))).toMatchObject({ text: "<no>" });
  await expectAsked(fixture, session, asking("echo two"));
});
