import { afterEach, expect, test } from "vitest";
import { createMcpServer } from "../../../src/mcp/server.js";
import { LegacySessions, type LegacySessionLimits } from "../../../src/mcp/transport/legacy-sessions.js";
import { waitFor } from "../../support/wait-for.js";

let opened: LegacySessions | null = null;
afterEach(async () => opened?.[Symbol.asyncDispose]());

function open(limits: Partial<LegacySessionLimits>): LegacySessions {
  const connector = { connect: () => Promise.reject(new Error("no tool is called")) };
  opened = new LegacySessions(() => createMcpServer({ version: "0", connector }), {
    ...{ all: 100, ofToken: 100, idleMs: 3_600_000 },
    ...limits,
  });
  return opened;
}

interface Exchange {
  readonly response: Response;
  /** The client has the answer, or has left. */
  readonly end: () => void;
}

async function send(
  sessions: LegacySessions,
  token: string,
  id: string | null,
  message: object | null,
): Promise<Exchange> {
  const headers = {
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
    ...(id === null ? {} : { "mcp-session-id": id, "mcp-protocol-version": "2025-11-25" }),
  };
  const connection = new AbortController();
  const body = message === null ? {} : { body: JSON.stringify(message) };
  const request = new Request("http://gateway/mcp", {
    ...{ method: message === null ? "GET" : "POST", headers },
    ...body,
  });
  const response = await sessions.serve(request, message ?? undefined, token, connection.signal);
  return { response, end: () => connection.abort() };
}

/** The id of a new session of the protocol. */
async function initialize(sessions: LegacySessions, token: string): Promise<string> {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } };
  const message = { jsonrpc: "2.0", id: 1, method: "initialize", params };
  const { response, end } = await send(sessions, token, null, message);
  await response.text();
  end();
  return response.headers.get("mcp-session-id") ?? "";
}

async function isKnown(sessions: LegacySessions, token: string, id: string): Promise<boolean> {
  const { response, end } = await send(sessions, token, id, { jsonrpc: "2.0", id: 2, method: "ping" });
  await response.text();
  end();
  return response.status === 200;
}

test("a client that initializes again and again is forgotten itself, not the clients of other tokens", async () => {
  const sessions = open({ ofToken: 2 });
  const other = await initialize(sessions, "other");
  const ids = [
    await initialize(sessions, "own"),
    await initialize(sessions, "own"),
    await initialize(sessions, "own"),
  ];
  const known = await Promise.all(ids.map((id) => isKnown(sessions, "own", id)));
  expect(known).toEqual([false, true, true]);
  expect(await isKnown(sessions, "other", other)).toBe(true);
});

test("a session of the protocol is not found with another token", async () => {
  const sessions = open({});
  const id = await initialize(sessions, "own");
  expect(await isKnown(sessions, "other", id)).toBe(false);
  expect(await isKnown(sessions, "own", id)).toBe(true);
});

test("beyond the limit of all clients the least recently used session is forgotten", async () => {
  const sessions = open({ all: 2 });
  const first = await initialize(sessions, "a");
  const second = await initialize(sessions, "b");
  expect(await isKnown(sessions, "a", first)).toBe(true);
  await initialize(sessions, "c");
  expect([await isKnown(sessions, "a", first), await isKnown(sessions, "b", second)]).toEqual([true, false]);
});

test("a session without an open stream is forgotten after a while, and one with it stays", async () => {
  const sessions = open({ idleMs: 500 });
  const listening = await initialize(sessions, "a");
  const stream = await send(sessions, "a", listening, null);
  expect(stream.response.status).toBe(200);
  const silent = await initialize(sessions, "a");
  await waitFor("one is forgotten", () => sessions.size === 1);
  expect(await isKnown(sessions, "a", silent)).toBe(false);
  expect(await isKnown(sessions, "a", listening)).toBe(true);
  await stream.response.body?.cancel();
  stream.end();
  await waitFor("the other is forgotten after its stream", () => sessions.size === 0);
});
