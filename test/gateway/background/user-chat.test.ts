import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import type { ResponseOf } from "../../../src/api/contract.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { shellAgent } from "../../support/agents/acp-fixture.js";
import { fakeAgentsConfig } from "../../support/agents/fake-agents.js";
import { startHttpReceiver } from "../../support/http-receiver.js";
import {
  startGatewayProcess,
  killGateway,
  temporaryHomeWithBystander,
} from "../../support/gateway/gateway-process.js";
import { waitFor } from "../../support/wait-for.js";

const TOKEN = `123456:${"hush".repeat(8)}xyz`;
const TYPING = "sendChatAction";
const origin = { channel: "user" } as const;
type Task = ResponseOf<"getTask">["task"];

interface Call {
  readonly method: string;
  readonly body: Readonly<Record<string, unknown>>;
}

/** A state directory whose gateways speak with a user's chat at what answers like the Bot API. */
async function chat(): Promise<{ readonly home: string; readonly calls: () => readonly Call[] }> {
  const home = await temporaryHomeWithBystander();
  const { url, received } = await startHttpReceiver((request, response) => {
    const result = request.url?.endsWith(TYPING) === true ? true : { message_id: 1 };
    response.end(JSON.stringify({ ok: true, result }));
  });
  const token = join(home, "token");
  writeFileSync(token, TOKEN, { mode: 0o600 });
  const config = join(home, "config.toml");
  writeFileSync(
    config,
    `${fakeAgentsConfig}
[[exec]]
effect = "allow"
[channels.user]
kind = "telegram"
token = { file = "${token}" }
chat = "42/17"
typing = true
root = "${url}"
allow-http = true
allow-networks = ["127.0.0.0/8"]
`,
  );
  vi.stubEnv("HOLDFAST_CONFIG", config);
  const calls = (): readonly Call[] =>
    received.map(({ path, body }) => {
      expect(path.startsWith(`/bot${TOKEN}/`)).toBe(true);
      return { method: path.split("/").at(-1) ?? "", body: JSON.parse(body) as Call["body"] };
    });
  return { home, calls };
}

const signs = (calls: readonly Call[]): number => calls.filter(({ method }) => method === TYPING).length;
const texts = (calls: readonly Call[]): unknown[] =>
  calls.filter(({ method }) => method !== TYPING).map(({ body }) => body["text"]);

async function told(client: GatewayClient, id: string, delivery: Task["delivery"]): Promise<Task> {
  let { task } = await client.getTask({ params: { id } });
  await waitFor(`${id} is ${delivery}`, async () => {
    ({ task } = await client.getTask({ params: { id } }));
    return task.delivery === delivery;
  });
  return task;
}

/** A prompt that is at work until its file is there. */
function held(home: string, name: string): { readonly prompt: string; readonly open: () => void } {
  const gate = join(home, name);
  return {
    prompt: `while [ ! -e ${gate} ]; do sleep 0.02; done; echo ${name}`,
    open: () => writeFileSync(gate, ""),
  };
}

/** One that is still shown has been shown again by then. */
const aBeat = (): Promise<void> => sleep(defaults.typingEveryMs + 500);

test("a user alone with an agent sees a typing indicator until the turn ends in any way", async () => {
  const { home, calls } = await chat();
  const { client } = await startGatewayProcess(home);
  const work = held(home, "hello");
  const agent = { argv: shellAgent(), cwd: home };
  const asked = { ...agent, key: "alone", prompt: work.prompt, origin };
  const answered = client.acpSpawn({ body: { ...asked, notify: "done_only", wait: true } });
  await waitFor("it is seen at work", () => signs(calls()) > 0);
  expect(calls()[0]).toEqual({
    method: TYPING,
    body: { chat_id: "42", message_thread_id: 17, action: "typing" },
  });
  expect(texts(calls())).toEqual([]);
  work.open();
  await answered;
  await told(client, "alone", "delivered");

  const cancelled = { ...agent, mode: "run", prompt: "sleep 1000", background: true, origin } as const;
  const before = signs(calls());
  const { session } = await client.acpSpawn({ body: cancelled });
  await waitFor("it is seen at work", () => signs(calls()) > before);
  await client.cancelTask({ params: { id: session.sessionId } });
  await told(client, session.sessionId, "delivered");

  const command = { argv: ["sleep", "1000"], background: true, origin };
  const { run } = await client.exec({ body: command });
  const silent = { ...cancelled, notify: "silent" } as const;
  const { session: unseen } = await client.acpSpawn({ body: silent });
  const after = signs(calls());
  await aBeat();
  expect(signs(calls())).toBe(after);
  await Promise.all([run.runId, unseen.sessionId].map((id) => client.cancelTask({ params: { id } })));
  await told(client, run.runId, "delivered");
  expect(texts(calls())).toEqual([
    expect.stringMatching(/ succeeded: hello$/),
    expect.stringMatching(/“sleep 1000” was cancelled/),
    expect.stringMatching(/“sleep 1000” was cancelled/),
  ]);
});

test("a background child sends its end, no progress and no typing to the user's chat; the conversation there continues", async () => {
  const { home, calls } = await chat();
  const { client } = await startGatewayProcess(home);
  const boss = { argv: shellAgent(), cwd: home, key: "boss", permissions: "approve-all" as const };
  const { session: parent } = await client.acpSpawn({ body: boss });
  const { token } = await client.openSession({ body: { key: "boss" } });
  const asBoss = createClient({ socketPath: gatewaySocketPath(home), token });
  const work = held(home, "in-the-background");
  const child = {
    argv: shellAgent(),
    cwd: home,
    mode: "run",
    background: true,
    notify: "state_changes",
    prompt: work.prompt,
  } as const;
  const children = [
    await asBoss.acpSpawn({ body: child }),
    // The operator says where the user is: it is the parent's work all the same.
    await client.acpSpawn({ body: { ...child, parentSessionKey: "boss", origin } }),
  ].map(({ session }) => session.sessionId);
  for (const id of children) {
    await waitFor("its parent was told that it has begun", async () => {
      const { task, messages } = await client.getTask({ params: { id } });
      return task.progress !== null && messages.some(({ status }) => status === "session_queued");
    });
  }
  const targets = await Promise.all(
    children.map(async (id) => (await client.getTask({ params: { id } })).task.targets),
  );
  const session = { kind: "session", sessionId: parent.sessionId };
  const user = { kind: "channel", channel: "user", address: null, on: "end" };
  expect(targets).toEqual([[session], [session, user]]);
  expect(calls()).toEqual([]);

  const said = held(home, "in-the-foreground");
  const foreground = { argv: shellAgent(), cwd: home, key: "talk", prompt: said.prompt };
  const answered = client.acpSpawn({
    body: { ...foreground, origin, notify: "state_changes", wait: true },
  });
  await waitFor("the user sees that it is at work", () => signs(calls()) > 0);
  said.open();
  await answered;
  await told(client, "talk", "delivered");
  const own = calls();
  expect(texts(own).at(-1)).toMatch(/ succeeded: in-the-foreground$/);
  work.open();
  for (const id of children) await told(client, id, "session_queued");
  await waitFor("the user is notified of the end", () => calls().length > own.length);
  // The user hears only of the child whose chat is known, and only of its end.
  const later = calls().slice(own.length);
  expect(texts(later)).toEqual([expect.stringMatching(/ succeeded: in-the-background$/)]);
  expect(signs(later)).toBe(0);
  expect(JSON.stringify(own)).not.toContain("in-the-background");
});

test("the gateway after a killed one continues the typing indicator", async () => {
  const { home, calls } = await chat();
  const first = await startGatewayProcess(home);
  const gate = join(home, "agent");
  const { run } = await first.client.runAgent({
    params: { id: "codex" },
    body: {
      ...{ prompt: "wait", background: true, origin },
      environment: { PATH: process.env["PATH"] ?? "", GATE: gate },
    },
  });
  await waitFor("it is seen at work", () => signs(calls()) > 0);
  killGateway(first.pid);
  const before = signs(calls());
  const { client } = await startGatewayProcess(home);
  await waitFor("it is seen at work again", () => signs(calls()) > before);
  writeFileSync(gate, "");
  await told(client, run.runId, "delivered");
  expect(texts(calls())).toEqual([expect.stringMatching(/“wait” succeeded: done$/)]);
  expect(calls().at(-1)?.method).toBe("sendMessage");
});
