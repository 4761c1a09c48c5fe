import { Agent, request } from "node:http";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { runConcurrently } from "../../../src/async/concurrency.js";
import { parseConfig } from "../../../src/config/schema.js";
import { gatewayForFile } from "../../support/gateway/real-gateway.js";
import { repetitions } from "../../support/scale.js";

const fixture = gatewayForFile({ config: parseConfig('[gateway]\nlisten = "127.0.0.1:0"', "c.toml") });
const CALLS = repetitions(2_000, 10_000);
const SLOWLY = { timeout: 300_000 };

interface Answer {
  readonly status: number;
  readonly body: string;
  /** The id of the protocol's session; empty: the answer names none. */
  readonly sessionId: string;
}

async function open(key: string) {
  const { token } = await fixture.client.openSession({ body: { key, execRules: [{ effect: "allow" }] } });
  const { listen } = await fixture.client.status();
  const [host = "", port = ""] = (listen ?? "").split(":");
  const agent = new Agent({ keepAlive: true, maxSockets: 64 });
  const send = (
    method: string,
    body: string | Buffer | null,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const asked = request({
        ...{ agent, host, port, method, path: "/mcp" },
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          ...headers,
        },
      });
      asked.once("error", reject);
      asked.once("response", (response) => {
        const { statusCode: status = 0, headers: answered } = response;
        const sessionId = String(answered["mcp-session-id"] ?? "");
        text(response).then((read) => resolve({ status, body: read, sessionId }), reject);
      });
      asked.end(body ?? undefined);
    });
  return { send, [Symbol.dispose]: () => agent.destroy() };
}

test("a request without the token of a session is refused with a challenge", async () => {
  const { listen } = await fixture.client.status();
  for (const token of [null, "hft_wrong", fixture.token]) {
    const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };
    const answer = await fetch(`http://${listen}/mcp`, { method: "POST", headers, body: "{}" });
    expect([answer.status, answer.headers.get("www-authenticate")]).toEqual([401, 'Bearer realm="holdfast"']);
    expect(await answer.json()).toMatchObject({ error: { code: "UNAUTHORIZED" } });
  }
});

test("rubbish, unknown methods, sessions and tools are refused, each with an answer", async () => {
  using hostile = await open("rubbish");
  const { send } = hostile;
  const statuses: Record<string, number> = {};
  for (const body of ["rubbish", "", "\u0000", "{}", "[]", "42", "[".repeat(100_000)])
    statuses[body.slice(0, 8)] = (await send("POST", body)).status;
  expect(statuses).toEqual(Object.fromEntries(Object.keys(statuses).map((body) => [body, 400])));
  expect((await send("POST", Buffer.alloc(8 * 1024 * 1024, "x"))).status).toBe(413);
  expect((await send("POST", "{}", { "content-type": "text/plain" })).status).toBe(415);
  expect((await send("PUT", "{}")).status).toBe(405);
  const ping = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
  for (const method of ["GET", "DELETE", "POST"])
    expect((await send(method, method === "POST" ? ping : null, { "mcp-session-id": "x" })).status).toBe(404);
  const rpc = (id: number, name: string, params: object): string =>
    JSON.stringify({ jsonrpc: "2.0", id, method: name, params });
  const clientInfo = { name: "\u001b]0;x\u0007", version: "1" };
  const begin = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  const { sessionId } = await send("POST", rpc(1, "initialize", begin));
  const call = { name: "exec\u001b[2J", arguments: {} };
  const { body: answer } = await send("POST", rpc(2, "tools/call", call), { "mcp-session-id": sessionId });
  expect(answer).toContain("Unknown tool");
  expect(answer).not.toContain("\u001b");
});

test(
  "thousands of calls at once are answered or refused, and the operator is answered meanwhile",
  SLOWLY,
  async () => {
    using hostile = await open("flood");
    const meta = {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "x", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const call = JSON.stringify({
      ...{ jsonrpc: "2.0", id: 1, method: "tools/call" },
      params: { name: "process", arguments: { action: "list" }, _meta: meta },
    });
    const headers = {
      ...{ "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "process" },
    };
    const answers = new Map<string, number>();
    const work = async (): Promise<void> => {
      const { status, body } = await hostile.send("POST", call, headers);
      const isError = /"isError":true/.test(body) ? ", the tool refused it" : "";
      answers.set(`${status}${isError}`, (answers.get(`${status}${isError}`) ?? 0) + 1);
    };
    const flood = runConcurrently(
      64,
      Array.from({ length: CALLS }, () => work),
    );
    let asked = 0;
    const over = flood.then(() => true);
    while (!(await Promise.race([over, fixture.client.status().then(() => false)]))) asked += 1;
    expect(asked).toBeGreaterThan(10);
    expect([...answers.values()].reduce((sum, count) => sum + count, 0)).toBe(CALLS);
    for (const answer of answers.keys()) expect(["200", "200, the tool refused it", "429"]).toContain(answer);
    expect(answers.get("200")).toBeGreaterThan(100);
  },
);
