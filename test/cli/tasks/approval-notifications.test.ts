import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createClient } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { openScriptedSession, scriptedPrompt } from "../../support/agents/scripted-agent.js";
import { waitFor } from "../../support/wait-for.js";
import { tasksFixtureForFile } from "./tasks-fixture.js";

const fixture = tasksFixtureForFile();

test("a command of an agent that waits for approval is notified once to the channel of the agent's task", async () => {
  const { gatewayFixture, client } = fixture;
  const done = join(gatewayFixture.home, "done");
  const id = await openScriptedSession(gatewayFixture, "builder", {
    prompt: scriptedPrompt({ wait: done }, { say: "built" }),
    background: true,
    execRules: [{ effect: "ask" }],
    origin: { channel: "user" },
  });
  const { token } = await client.rotateToken({ params: { id }, body: {} });
  const agent = createClient({ socketPath: gatewaySocketPath(gatewayFixture.home), token });
  const asked = agent.exec({ body: { argv: ["echo", "deployed"] } });
  const received = () => readFile(fixture.received, "utf8");
  await waitFor("the channel is notified", async () => (await received()).includes("waits for approval"));
  const [approval] = (await client.listApprovals()).approvals;
  expect(await received()).toMatch(/builder waits for approval, at most 5 min: \S*echo deployed/);
  expect(await received()).toContain(`holdfast approvals show ${approval?.id}`);
  await client.decideApproval({ params: { id: approval?.id ?? "" }, body: { verdict: "allow" } });
  expect(await asked).toMatchObject({ failure: null });
  await writeFile(done, "");
  await fixture.tasks("wait", "builder");
  const messages = (await received()).split("\n").filter((line) => line.includes("waits for approval"));
  expect(messages).toHaveLength(1);
  await client.acpClose({ params: { id } });
});

test("a permission request of an agent is told to the channel of the agent's task, once", async () => {
  const { client, gatewayFixture } = fixture;
  const id = await openScriptedSession(gatewayFixture, "asker", {
    prompt: scriptedPrompt({ ask: "deploy it" }, { say: "deployed" }),
    background: true,
    rules: [{ effect: "ask" }],
    origin: { channel: "user" },
  });
  const told = async (): Promise<string[]> =>
    (await readFile(fixture.received, "utf8")).split("\n").filter((line) => line.includes("asker waits for"));
  await waitFor("the user is told", async () => (await told()).length > 0);
  const [request] = (await client.acpPermissions({ query: { session: id } })).permissions;
  expect(request).toMatchObject({ title: "deploy it", sessionKey: "asker" });
  const [message] = await told();
  expect(message).toContain("asker waits for permission, at most 5 min: execute: deploy it");
  expect(message).toContain(`holdfast acp permissions show ${request?.id}`);
  await client.acpAnswer({ params: { id: request?.id ?? "" }, body: { verdict: "allow" } });
  await fixture.tasks("wait", "asker");
  expect(await told()).toHaveLength(1);
  await client.acpClose({ params: { id } });
});
