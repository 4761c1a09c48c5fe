import { expect, test } from "vitest";
import type { ResponseOf } from "../../../src/api/contract.js";
import { followNdjson } from "../../../src/api/client.js";
import { parseConfig } from "../../../src/config/schema.js";
import { clientAgent, misbehavingAgent, shellAgent } from "../../support/agents/acp-fixture.js";
import { parseAnswers } from "../../support/agents/client-agent.js";
import { errorOf, gatewayForFile, waitForRunEnd } from "../../support/gateway/real-gateway.js";
import { findProcessesOfRun } from "../../support/supervisor/real-supervisor.js";

const config = parseConfig(
  `[agents.mine.acp]
   argv = ${JSON.stringify(clientAgent)}
   client = { files = "read", roots = ["/usr/share"] }`,
  "",
);
const fixture = gatewayForFile({ config });
const cwd = process.cwd();
type Update = ResponseOf<"acpWatch">["updates"][number];

test("spawn, prompt, updates, end of the turn and close work through the gateway, and no process is left", async () => {
  const { client } = fixture;
  const argv = misbehavingAgent("long-turn");
  const { session, created } = await client.acpSpawn({ body: { argv, cwd, key: "first" } });
  expect(created).toBe(true);
  expect(session).toMatchObject({ state: "ready", key: "first", agentSessionId: "s", problem: null });
  expect((await client.acpSpawn({ body: { argv, cwd, key: "first" } })).created).toBe(false);

  const { turn } = await client.acpPrompt({ params: { id: "first" }, body: { text: "go" } });
  expect(turn).toMatchObject({ state: "ended", outcome: "completed", stopReason: "end_turn" });
  expect(turn.text).toBe(Array.from({ length: 3_000 }, (_, at) => `${at}`).join(""));

  const updates: Update[] = [];
  for (let after = 0; ;) {
    const page = await client.acpWatch({ params: { id: "first" }, query: { after } });
    updates.push(...page.updates);
    if (page.after === after) break;
    after = page.after;
  }
  expect(updates.map(({ seq }) => seq)).toEqual(updates.map((_, at) => at + 1));
  const said = updates.filter(({ type }) => type === "update");
  expect(said).toHaveLength(3_000);
  expect(said[7]?.data).toMatchObject({ sessionUpdate: "agent_message_chunk" });

  const shown = await client.acpShow({ params: { id: session.sessionId } });
  expect(shown.tree.verified).toBe(true);
  expect(shown.tree.processes.length).toBeGreaterThanOrEqual(2);

  // Followed from the middle: the rest, then the end of the session.
  const path = `/v1/acp/sessions/first/updates?follow=1&after=${updates.length - 1}`;
  const heard: Update[] = [];
  const following = (async () => {
    for await (const update of followNdjson<Update>(fixture, path)) heard.push(update);
  })();
  const closed = await client.acpClose({ params: { id: "first" } });
  await following;
  expect(heard.map(({ type }) => type)).toEqual(["audit", "session"].slice(-heard.length));
  expect(closed.session).toMatchObject({ state: "closed" });
  const record = await waitForRunEnd(client, session.runId ?? "");
  expect(record).toMatchObject({ emptiness: "proven", backendId: "acp", sessionKey: "first" });
  expect(await findProcessesOfRun(record.runId)).toEqual([]);
  expect(
    await errorOf(client.acpPrompt({ params: { id: session.sessionId }, body: { text: "x" } })),
  ).toMatchObject({
    code: "ACP_SESSION_CLOSED",
  });
});

test("a session sees and controls only its descendants, and may spawn only what it may execute", async () => {
  const { client } = fixture;
  const parent = await client.openSession({
    body: {
      key: "parent",
      sandboxed: true,
      execRules: [{ effect: "allow", executable: process.execPath }, { effect: "deny" }],
    },
  });
  const { token: strangers } = await client.openSession({
    body: { key: "stranger", execRules: [{ effect: "allow" }] },
  });
  const self = fixture.as(parent.token);
  const argv = shellAgent();
  const { session } = await self.acpSpawn({
    body: { argv, cwd, key: "child", prompt: "echo hello", wait: true },
  });
  expect((await client.listSessions()).sessions.find(({ key }) => key === "child")).toMatchObject({
    parentSessionKey: "parent",
    lineage: [parent.session.id],
    backend: "acp",
    // Its parent can read its token: it may do no more.
    sandboxed: true,
    visibility: "tree",
    execRules: parent.session.execRules,
  });
  expect((await self.acpList()).sessions).toHaveLength(1);
  const other = fixture.as(strangers);
  expect((await other.acpList()).sessions).toEqual([]);
  const params = { id: "child" };
  for (const answer of [
    other.acpShow({ params }),
    other.acpPrompt({ params, body: { text: "echo mine" } }),
    other.acpCancel({ params }),
    other.acpClose({ params }),
    other.acpHistory({ params }),
    other.acpWatch({ params }),
    other.acpPermissions({ query: { session: "child" } }),
    self.acpAnswer({ params: { id: "prm_1" }, body: { verdict: "allow" } }),
  ].map(errorOf))
    expect(await answer).toMatchObject({ code: "NOT_FOUND" });
  // Byte for byte as if there were none.
  const ask = async (id: string) => (await errorOf(other.acpShow({ params: { id } }))).message;
  expect(await ask("child")).toBe((await ask("nobody")).replace("nobody", "child"));
  const path = "/v1/acp/sessions/child/updates?follow=1";
  expect((await fixture.raw("GET", path, { token: strangers })).status).toBe(404);
  expect(await errorOf(self.acpSpawn({ body: { argv: ["/bin/sh"], cwd } }))).toMatchObject({
    code: "EXEC_DENIED",
  });
  expect(await errorOf(other.acpSpawn({ body: { argv, cwd, key: "child" } }))).toMatchObject({
    code: "SESSION_TAKEN",
  });
  // A session that is closed takes its agent with it.
  expect(await client.closeSession({ params: { id: session.sessionId } })).toMatchObject({ closed: true });
  expect(await waitForRunEnd(client, session.runId ?? "")).toMatchObject({ emptiness: "proven" });
});

test("an existing session with other permissions than requested is refused", async () => {
  const { client } = fixture;
  const body = { argv: shellAgent(), cwd, key: "careless", permissions: "approve-all" } as const;
  const { session } = await client.acpSpawn({ body });
  expect(await errorOf(client.acpSpawn({ body: { ...body, permissions: "deny-all" } }))).toMatchObject({
    code: "SESSION_TAKEN",
    message: expect.stringContaining("with other permissions") as string,
  });
  const { permissions: _, ...unsaid } = body;
  for (const same of [body, unsaid])
    expect(await client.acpSpawn({ body: same })).toMatchObject({
      created: false,
      session: { sessionId: session.sessionId },
    });
  await client.acpClose({ params: { id: "careless" } });
});

test("client capabilities come from the catalogue or the operator; a session cannot set them", async () => {
  const { client } = fixture;
  const methods = ["fs/read_text_file", "fs/write_text_file", "terminal/create"];
  const prompt = JSON.stringify(methods.map((method) => [method, {}]));
  const offered = async (key: string) => (await client.acpShow({ params: { id: key } })).client;
  const asked = { agent: "mine", cwd, prompt, wait: true };
  const [plain, told] = await Promise.all([
    client.acpSpawn({ body: { ...asked, key: "plain" } }),
    client.acpSpawn({ body: { ...asked, key: "told", client: { files: "none", terminals: true } } }),
  ]);
  const codes = ({ turn }: typeof plain) => parseAnswers(turn ?? { text: "" }).map(({ code }) => code);
  expect(codes(plain)).toEqual([-32_602, -32_601, -32_601]);
  expect(codes(told)).toEqual([-32_601, -32_601, -32_602]);
  expect(await offered("plain")).toEqual({ files: "read", roots: ["/usr/share"], terminals: false });
  expect(await offered("told")).toEqual({ files: "none", roots: ["/usr/share"], terminals: true });
  for (const id of ["plain", "told"]) await client.acpClose({ params: { id } });

  const { token } = await client.openSession({ body: { key: "asker", execRules: [{ effect: "allow" }] } });
  const body = { agent: "mine", cwd, client: { terminals: true } };
  expect(await errorOf(fixture.as(token).acpSpawn({ body }))).toMatchObject({ code: "BAD_INPUT" });
});

test("bad requests are refused before anything is recorded or started", async () => {
  const { client } = fixture;
  const before = (await client.acpList({ query: { all: "1" } })).sessions.length;
  for (const body of [
    { cwd },
    { cwd, agent: "nobody" },
    { cwd, agent: "codex", argv: ["x"] },
    { cwd, argv: ["x"], rules: [{ effect: "deny" }] },
    { cwd, argv: ["x"], key: "ses_000000000000" },
  ])
    expect(await errorOf(client.acpSpawn({ body: body as never }))).toMatchObject({ code: "BAD_INPUT" });
  const missing = { argv: ["/nowhere/agent"], cwd, key: "missing" };
  expect(await errorOf(client.acpSpawn({ body: missing }))).toMatchObject({ code: "SPAWN_FAILED" });
  expect((await client.acpList()).sessions).toEqual([]);
  expect((await client.acpList({ query: { all: "1" } })).sessions.length).toBe(before + 1);
});
