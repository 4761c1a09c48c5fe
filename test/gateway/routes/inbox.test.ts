import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { GatewayClient } from "../../../src/api/client.js";
import { parseConfig } from "../../../src/config/schema.js";
import type { MessageDelivery } from "../../../src/model/session-message.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { fakeAgentsConfig } from "../../support/agents/fake-agents.js";
import { gatewayForFile, errorOf } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const fixture = gatewayForFile({ config: parseConfig(fakeAgentsConfig, "") });

/** A session opened by hand, without an agent. */
async function opened(key: string, parentSessionKey?: string) {
  const parent = parentSessionKey === undefined ? {} : { parentSessionKey };
  const { session, token } = await fixture.client.openSession({
    body: { key, visibility: "tree", ...parent },
  });
  return { id: session.id, client: fixture.as(token) };
}

async function said(id: string, text: string, deliver: MessageDelivery = "wake"): Promise<string> {
  return (await fixture.client.sendMessage({ params: { id }, body: { text, deliver } })).message.id;
}

async function waiting(id: string, client: GatewayClient = fixture.client): Promise<string[]> {
  return (await client.sessionInbox({ params: { id } })).messages.map((message) => message.id);
}

async function acknowledged(id: string, ids: string[], client = fixture.client): Promise<string[]> {
  return (await client.acknowledgeInbox({ params: { id }, body: { ids } })).acknowledged;
}

test("reading an inbox changes nothing; acknowledging a message marks its task as delivered at once", async () => {
  const { id, client } = await opened("script");
  const { task } = await client.createTask({ body: { label: "index", notify: "done_only" } });
  await client.finishTask({
    params: { id: task.taskId },
    body: { status: "succeeded", summary: "12 files" },
  });
  const delivery = async () => (await client.getTask({ params: { id: task.taskId } })).task.delivery;
  await waitFor("it waits", async () => (await delivery()) === "session_queued");
  const later = await said(id, "and you?");
  const inbox = await client.sessionInbox({ params: { id } });
  expect(inbox).toMatchObject({
    session: { id },
    messages: [{ role: "system", text: "Task “index” succeeded: 12 files" }, { id: later }],
    more: false,
  });
  expect(await client.sessionInbox({ params: { id } })).toEqual(inbox);
  expect(await delivery()).toBe("session_queued");
  const notice = inbox.messages[0]?.id ?? "";
  const both = await Promise.all([
    acknowledged(id, [notice, "msg_000000000000"], client),
    acknowledged(id, [notice]),
  ]);
  expect(both.flat()).toEqual([notice]);
  expect(await delivery()).toBe("delivered");
  expect(await waiting(id, client)).toEqual([later]);
  expect(await fixture.client.sessionStatus({ params: { id } })).toMatchObject({
    messages: { total: 2, pending: 1, undelivered: 0 },
  });
});

test("a page is limited by count and size, and says that more follows", async () => {
  const { id } = await opened("long");
  const ids = [await said(id, "a"), await said(id, "b".repeat(999_999)), await said(id, "c")];
  const page = async (query: { limit?: number } = {}) => {
    const { messages, more } = await fixture.client.sessionInbox({ params: { id }, query });
    return [messages.map((message) => message.id), more];
  };
  expect(await page()).toEqual([ids.slice(0, 2), true]);
  expect(await page({ limit: 1 })).toEqual([ids.slice(0, 1), true]);
  await acknowledged(id, ids.slice(0, 1));
  expect(await page()).toEqual([ids.slice(1), false]);
});

test("only the session itself and the operator may acknowledge, and only while the session is open", async () => {
  const parent = await opened("over");
  const child = await opened("under", "over");
  const stranger = await opened("beside");
  const message = await said(child.id, "for you");
  expect(await waiting(child.id, parent.client)).toEqual([message]);
  expect(await errorOf(acknowledged(child.id, [message], parent.client))).toMatchObject({
    code: "BAD_INPUT",
    message: expect.stringContaining("itself or the operator") as string,
  });
  const hidden = await errorOf(acknowledged(child.id, [message], stranger.client));
  expect(hidden).toEqual({ code: "NOT_FOUND", message: expect.stringContaining(child.id) as string });
  expect(await errorOf(waiting(child.id, stranger.client))).toEqual(hidden);
  // A message can be acknowledged only in the session that it was sent to.
  expect(await acknowledged(stranger.id, [message])).toEqual([]);
  expect(await waiting(child.id)).toEqual([message]);
  await fixture.client.closeSession({ params: { id: child.id } });
  expect(await waiting(child.id)).toEqual([message]);
  expect(await errorOf(acknowledged(child.id, [message]))).toMatchObject({ code: "SESSION_CLOSED" });
});

test("a message in a running turn cannot be acknowledged; a waiting one can, and starts no turn then", async () => {
  const log = join(fixture.home, "log");
  writeFileSync(log, "");
  const environment = { PATH: process.env["PATH"] ?? "", AGENT_LOG: log };
  const body = { argv: shellAgent("echo"), cwd: fixture.home, key: "agent", environment };
  const { session } = await fixture.client.acpSpawn({ body });
  const { sessionId: id } = session;
  const carried = await said(id, "by the way", "next-turn");
  const params = { id };
  await fixture.client.acpPrompt({ params, body: { text: "HOLD", wait: false } });
  await waitFor("it is at work", () => readFileSync(log, "utf8").includes("HOLD"));
  const [read, left] = [await said(id, "read elsewhere"), await said(id, "left")];
  expect(await waiting(id)).toEqual([read, left]);
  expect(await acknowledged(id, [carried, read])).toEqual([read]);
  writeFileSync(`${log}.go`, "");
  await waitFor("all is said", async () => {
    const { messages } = await fixture.client.sessionStatus({ params });
    return messages.pending === 0;
  });
  const { turns } = await fixture.client.sessionHistory({ params });
  expect(turns.map(({ text }) => text)).toEqual([
    "Message from the operator:\n> by the way\n\nHOLD",
    "Message from the operator:\n> left",
  ]);
  await fixture.client.acpClose({ params });
});

test("a message in a running prompt cannot be acknowledged; one that did not fit keeps waiting", async () => {
  const hello = { prompt: "hello", yieldMs: 20_000 };
  const { session } = await fixture.client.runAgent({ params: { id: "codex" }, body: hello });
  const { id } = session;
  const told = [await said(id, "a".repeat(2_000)), await said(id, "b".repeat(12_000))];
  const unfit = await said(id, "c".repeat(12_000));
  const gate = join(fixture.home, "gate");
  const environment = { PATH: process.env["PATH"] ?? "", GATE: gate };
  const prompt = { prompt: "wait", resume: id, background: true, environment };
  await fixture.client.runAgent({ params: { id: "codex" }, body: prompt });
  const meanwhile = await said(id, "meanwhile");
  expect(await waiting(id)).toEqual([unfit, meanwhile]);
  expect(await acknowledged(id, [...told, meanwhile])).toEqual([meanwhile]);
  writeFileSync(gate, "");
  await waitFor("it is answered", async () => {
    const { messages } = await fixture.client.sessionHistory({ params: { id } });
    return messages.at(-1)?.text === "done";
  });
  expect(await waiting(id)).toEqual([unfit]);
});
