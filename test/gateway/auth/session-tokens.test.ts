import { request } from "node:http";
import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import { WebSocket } from "ws";
import type { GatewayClient } from "../../../src/api/client.js";
import { parseConfig } from "../../../src/config/schema.js";
import type { RequestOf } from "../../../src/api/contract.js";
import { gatewayForFile, errorOf, shellCommand, outputText } from "../../support/gateway/real-gateway.js";
import { waitFor } from "../../support/wait-for.js";

const SECRETS = { IT_WEBHOOK: "hush-webhook", IT_BOT: "hush-bot", IT_ROOM: "hush-room" };
Object.assign(process.env, SECRETS);
const channels = `
[channels.ops]
kind = "webhook"
url = "https://example.com/"
secrets = [{ env = "IT_WEBHOOK" }]
[channels.bot]
kind = "telegram"
token = { env = "IT_BOT" }
[channels.room]
kind = "slack"
url = { env = "IT_ROOM" }
`;
const fixture = gatewayForFile({ config: parseConfig(channels, "") });
type Rules = RequestOf<"openSession">["body"]["execRules"];
const anything: Rules = [{ effect: "allow" }];

async function session(key: string, execRules: Rules = anything) {
  const { token, session: row } = await fixture.client.openSession({ body: { key, execRules } });
  return { client: fixture.as(token), token, id: row.id };
}

async function sleeping(client: GatewayClient): Promise<string> {
  const { run } = await client.exec({ body: { argv: ["sleep", "60"], background: true, graceMs: 0 } });
  return run.runId;
}

async function attachAnswer(runId: string, token: string): Promise<string> {
  const viewer = new WebSocket(`ws+unix://${fixture.socketPath}:/v1/runs/${runId}/attach`, {
    headers: { authorization: `Bearer ${token}` },
  });
  viewer.on("error", () => undefined);
  return new Promise((resolve, reject) => {
    viewer.once("open", () => reject(new Error("it was admitted")));
    viewer.once("unexpected-response", (_, response) => {
      let text = `${response.statusCode} `;
      response.on("data", (part: Buffer) => (text += part.toString()));
      response.once("end", () => resolve(text));
    });
  });
}

async function pending(id: string) {
  const { approvals } = await fixture.client.listApprovals();
  return approvals.find(({ sessionId }) => sessionId === id);
}

test("a session starts, sees, controls and stops its own runs", async () => {
  const { client } = await session("own");
  const { run } = await client.exec({ body: { argv: ["cat"], stdin: "pipe", background: true } });
  expect(run.sessionKey).toBe("own");
  expect((await client.listRuns()).runs.map(({ runId }) => runId)).toEqual([run.runId]);
  await client.write({ params: run, body: { text: "hello" } });
  expect(outputText(await client.poll({ params: run, query: { waitMs: 5_000 } }))).toBe("hello");
  const { outcome, run: record } = await client.kill({ params: run });
  expect(outcome).toBe("gone");
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "session:own" });
});

test("a run has no channel secrets in its environment, unless its caller set them", async () => {
  const { client } = await session("writer");
  const own = await client.exec({ body: { argv: ["env"] } });
  expect(outputText(own)).toContain("PATH=");
  expect(outputText(own)).not.toContain("hush");
  const given = await client.exec({ body: { argv: ["env"], environment: { ...SECRETS, PATH: "/bin" } } });
  expect(outputText(given)).toContain("IT_BOT=hush-bot");
});

test("a run has only the token of its session in its environment", async () => {
  const { client, token } = await session("child");
  const answer = await client.exec({
    body: {
      ...shellCommand('printf "%s" "$HOLDFAST_TOKEN"; sleep 60'),
      sessionKey: "operator",
      env: { HOLDFAST_TOKEN: "mine" },
      yieldMs: 1_000,
      graceMs: 0,
    },
  });
  const given = outputText(answer);
  expect(answer.run.sessionKey).toBe("child");
  expect([token, "mine", fixture.token]).not.toContain(given);
  const { runs } = await fixture.as(given).listRuns({ query: { all: "1" } });
  expect(runs.map(({ runId }) => runId)).toEqual([answer.run.runId]);
  await fixture.client.kill({ params: answer.run });
});

const routes: [string, (client: GatewayClient, runId: string) => Promise<unknown>][] = [
  ["getRun", (client, runId) => client.getRun({ params: { runId } })],
  ["poll", (client, runId) => client.poll({ params: { runId } })],
  ["log", (client, runId) => client.log({ params: { runId } })],
  ["screen", (client, runId) => client.screen({ params: { runId } })],
  ["write", (client, runId) => client.write({ params: { runId }, body: { text: "x" } })],
  ["sendKeys", (client, runId) => client.sendKeys({ params: { runId }, body: { keys: ["Enter"] } })],
  ["paste", (client, runId) => client.paste({ params: { runId }, body: { text: "x" } })],
  ["resize", (client, runId) => client.resize({ params: { runId }, body: { rows: 9, cols: 9 } })],
  ["heartbeat", (client, runId) => client.heartbeat({ params: { runId } })],
  ["kill", (client, runId) => client.kill({ params: { runId } })],
  ["ready", (client, runId) => client.ready({ params: { runId } })],
  ["adoptRun", (client, runId) => client.adoptRun({ params: { runId } })],
  ["agentResult", (client, runId) => client.agentResult({ params: { runId } })],
  ["remove", (client, runId) => client.remove({ params: { runId } })],
];

test("records of others answer exactly as if they did not exist", async () => {
  const stranger = await session("stranger");
  const curious = await session("curious");
  const foreign = [await sleeping(stranger.client), await sleeping(fixture.client)];
  const missing = "run_000000000000";
  for (const runId of foreign) {
    for (const [verb, ask] of routes) {
      const answer = await errorOf(ask(curious.client, runId));
      const none = await errorOf(ask(curious.client, missing));
      expect({ verb, ...answer, message: answer.message.replaceAll(runId, missing) }).toEqual({
        verb,
        ...none,
      });
    }
    const attached = await attachAnswer(runId, curious.token);
    expect(attached.replaceAll(runId, missing)).toBe(await attachAnswer(missing, curious.token));
    for (const after of [0, 1]) {
      const ask = (run: string) => curious.client.events({ query: { run, after } });
      expect(await ask(runId)).toEqual(await ask(missing));
    }
    expect((await fixture.client.getRun({ params: { runId } })).state).toBe("running");
  }
  expect((await curious.client.listRuns({ query: { all: "1" } })).runs).toEqual([]);
  expect((await curious.client.listRuns({ query: { session: "stranger" } })).runs).toEqual([]);
  const { sessions } = await curious.client.listSessions();
  expect(sessions.map(({ key }) => key)).toEqual(["curious"]);
  for (const runId of foreign) await fixture.client.kill({ params: { runId } });
});

test("the status counts only the runs that the session sees", async () => {
  const { client } = await session("counting");
  const runId = await sleeping(fixture.client);
  expect((await client.status()).runs).toBe(0);
  const own = await sleeping(client);
  expect((await client.status()).runs).toBe(1);
  expect((await fixture.client.status()).runs).toBeGreaterThanOrEqual(2);
  for (const each of [runId, own]) await fixture.client.kill({ params: { runId: each } });
});

test("routes for the operator answer a session like unknown paths", async () => {
  const { token } = await session("modest");
  const unknown = await fixture.raw("GET", "/v1/nothing", { token });
  for (const [method, path] of [
    ["POST", "/v1/gateway/stop"],
    ["POST", "/v1/sessions"],
    ["DELETE", "/v1/sessions/x"],
    ["GET", "/v1/approvals"],
    ["GET", "/v1/gateways"],
    ["POST", "/v1/approvals/x"],
  ] as const) {
    const { status, text } = await fixture.raw(method, path, {
      token,
      ...(method === "POST" && { body: "{" }),
    });
    expect(status).toBe(404);
    expect(text.replace(`${method} ${path}`, "GET /v1/nothing")).toBe(unknown.text);
  }
});

test("others' runs do not use up a session's page", async () => {
  const { client } = await session("paged");
  const mine = await client.exec({ body: { argv: ["true"] } });
  for (let i = 0; i < 3; i++) await fixture.client.exec({ body: { argv: ["true"] } });
  const { runs } = await client.listRuns({ query: { all: "1", limit: 1 } });
  expect(runs.map(({ runId }) => runId)).toEqual([mine.run.runId]);
  await session("paged-too");
  const { sessions } = await client.listSessions({ query: { limit: 1 } });
  expect(sessions.map(({ key }) => key)).toEqual(["paged"]);
});

test("a deny rule prevents the start", async () => {
  const { client } = await session("denied", [{ effect: "deny", executable: "env" }, { effect: "allow" }]);
  expect((await errorOf(client.exec({ body: { argv: ["env"] } }))).code).toBe("EXEC_DENIED");
  expect((await client.listRuns({ query: { all: "1" } })).runs).toEqual([]);
  expect(await client.exec({ body: { argv: ["true"] } })).toMatchObject({ failure: null });
});

test.for([
  ["environment", { environment: { PATH: "/usr/bin:/bin", LD_PRELOAD: "/tmp/x.so" } }],
  ["env", { env: { LD_PRELOAD: "/tmp/x.so" }, allowEnv: ["LD_PRELOAD"] }],
] as const)("an allowed command cannot be made to run other code by its %s", async ([, extra]) => {
  const { client } = await session("injecting");
  const body = { argv: ["true"], ...extra, allowEnv: ["LD_PRELOAD"] };
  expect((await errorOf(client.exec({ body }))).code).toBe("EXEC_DENIED");
});

test("a closed session's tokens are invalid for new, waiting and streaming requests", async () => {
  const { client, id, token } = await session("closed", [{ effect: "allow", executable: "sleep" }]);
  const runId = await sleeping(client);
  const asked = errorOf(client.exec({ body: { argv: ["true"] } }));
  const seen: string[] = [];
  const following = request({
    socketPath: fixture.socketPath,
    path: "/v1/events?follow=1",
    headers: { authorization: `Bearer ${token}` },
  });
  following.on("response", (response) => response.on("data", (part: Buffer) => seen.push(part.toString())));
  following.on("error", () => undefined);
  following.end();
  await waitFor("it follows", () => seen.join("").includes(runId));
  await waitFor("it is asked", async () => (await pending(id)) !== undefined);
  expect(await fixture.client.closeSession({ params: { id } })).toMatchObject({ closed: true });
  expect((await asked).code).toBe("EXEC_DENIED");
  expect((await errorOf(client.status())).code).toBe("UNAUTHORIZED");
  const before = seen.length;
  expect(await fixture.client.kill({ params: { runId } })).toMatchObject({ outcome: "gone" });
  await setTimeout(400);
  following.destroy();
  expect(seen.slice(before)).toEqual([]);
  expect(await fixture.client.closeSession({ params: { id } })).toMatchObject({ closed: false });
});

test("a session that reuses the key of a closed one does not see its runs", async () => {
  const first = await session("reused");
  const runId = await sleeping(first.client);
  await fixture.client.closeSession({ params: { id: first.id } });
  const second = await session("reused");
  const answer = await errorOf(second.client.getRun({ params: { runId } })).catch(() => ({ code: "SEEN" }));
  await fixture.client.kill({ params: { runId } });
  expect(answer.code).toBe("RUN_NOT_FOUND");
  // The key now names the second session.
  expect(await fixture.client.closeSession({ params: { id: "reused" } })).toMatchObject({ closed: true });
  expect(await fixture.client.closeSession({ params: { id: "reused" } })).toMatchObject({ closed: false });
  expect((await errorOf(second.client.getRun({ params: { runId } }))).code).toBe("UNAUTHORIZED");
});

test("a viewer of a closed session is disconnected", async () => {
  const { client, id, token } = await session("viewed");
  const runId = await sleeping(client);
  const viewer = new WebSocket(`ws+unix://${fixture.socketPath}:/v1/runs/${runId}/attach`, {
    headers: { authorization: `Bearer ${token}` },
  });
  const closed = new Promise<number>((resolve) => viewer.once("close", resolve));
  await new Promise((resolve) => viewer.once("open", resolve));
  await fixture.client.closeSession({ params: { id } });
  expect(await closed).toBe(1008);
  expect(await fixture.client.kill({ params: { runId } })).toMatchObject({ outcome: "gone" });
});
