import { expect, test } from "vitest";
import { gatewayAndCliForFile } from "../../support/cli/batch-cli.js";
import { openScriptedSession, scriptedPrompt } from "../../support/agents/scripted-agent.js";
import { waitFor } from "../../support/wait-for.js";

const shared = gatewayAndCliForFile();
const sessions = (...args: readonly string[]) => shared.batchCli.holdfast("sessions", ...args);

test("status and history of an agent's session: its turns, what was said to it, and what came of that", async () => {
  const id = await openScriptedSession(shared.gatewayFixture, "told");
  const client = await shared.gatewayFixture.client();
  await client.acpPrompt({ params: { id }, body: { text: scriptedPrompt({ say: "fine\u001b[2J" }) } });
  const noted = await sessions("send", "told", "--deliver", "next-turn", "--json", "know\u001b[2J this");
  expect(JSON.parse(noted.stdout)).toMatchObject({ deliver: "next-turn", turnId: null, deliveredAt: null });
  const status = (await sessions("status", "told")).stdout;
  expect(status).toMatch(/^acp +ready, mode session$/m);
  expect(status).toMatch(/^state +idle$/m);
  expect(status).toMatch(/^messages +1, 1 waiting, the last /m);
  const before = (await sessions("history", "told")).stdout;
  expect(before).toMatch(/^#1 \S+ operator, completed after /m);
  expect(before).toMatch(/^#2 user, operator, \S+ \(waits for the next turn\)\nknow.* this$/m);
  expect(before).toContain("fine");
  await sessions("send", "told", "go on");
  await waitFor("it was told", async () => {
    const { state, messages } = await client.sessionStatus({ params: { id } });
    return state === "idle" && messages.pending === 0;
  });
  const { stdout } = await sessions("history", "told");
  expect(stdout).toMatch(/^#2 user, operator, \S+ \(told with #3\)$/m);
  expect(stdout).toMatch(/^#3 \S+ operator, completed after .*\n> Message from the operator:\n> > go on$/m);
  expect(stdout).not.toContain("\u001b[2J");
  expect((await sessions("history", "told", "--limit", "1")).stderr).toContain("--before 3");
  const page = JSON.parse((await sessions("history", "told", "--before", "3", "--json")).stdout) as object;
  expect(page).toMatchObject({
    messages: [{ seq: 2 }],
    turns: [{ place: 1, outcome: "completed" }],
    runs: [],
  });
});
