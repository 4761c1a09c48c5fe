import { defaults } from "../../../src/defaults.js";
import { expect, test } from "vitest";
import { deferred } from "../../../src/supervisor/deferred.js";
import { initialize } from "../../../src/acp/wire/initialize.js";
import type { PendingRequest } from "../../../src/acp/wire/pending.js";
import { settled, Wired } from "./wired.js";

const info = { name: "holdfast", version: "0" };
const soon = { deadlineMs: 1_000 };
const permission = (id: number | string): object => ({
  id,
  method: "session/request_permission",
  params: { sessionId: "s", toolCall: { toolCallId: "t" }, options: [] },
});

test("answers reach who asked, whatever their order", async () => {
  const wired = new Wired();
  const one = wired.connection.request("session/list", {}, soon);
  const two = wired.connection.request("session/list", {}, soon);
  await settled();
  expect(wired.sent.map(({ id, method }) => [id, method])).toEqual([
    [1, "session/list"],
    [2, "session/list"],
  ]);
  wired.say({ id: 2, result: { sessions: ["b"] } }, { id: 1, result: { sessions: ["a"] } });
  expect(await one).toEqual({ sessions: ["a"] });
  expect(await two).toEqual({ sessions: ["b"] });
  expect(wired.connection.state.pending).toEqual([]);
});

test("a request that is not answered in time fails, and its late answer is counted and dropped", async () => {
  const wired = new Wired();
  const failed = wired.connection.request("session/list", {}, soon).catch((error: unknown) => error);
  await settled();
  wired.clock.pass(1_000);
  expect(await failed).toMatchObject({ code: "ACP_TIMEOUT", method: "session/list", deadlineMs: 1_000 });
  wired.say({ id: 1, result: {} });
  await settled();
  expect(wired.connection.counts).toMatchObject({ late: 1, answeredTwice: 0, unmatched: 0 });
  expect(wired.clock.timers).toBe(0);
});

test("second answers and answers to nothing are counted and change nothing", async () => {
  const wired = new Wired();
  const asked = wired.connection.request("session/list", {}, soon);
  await settled();
  wired.say({ id: 1, result: { sessions: [1] } }, { id: 1, result: { sessions: [2] } });
  wired.say({ id: 77, result: {} }, { id: null, error: { code: -32700, message: "parse error" } });
  expect(await asked).toEqual({ sessions: [1] });
  await settled();
  expect(wired.connection.counts).toMatchObject({ answeredTwice: 1, unmatched: 2 });
});

test("an error is the agent's word: its code kept, its text made harmless", async () => {
  const wired = new Wired();
  const failed = wired.connection.request("session/list", {}, soon).catch((error: unknown) => error);
  await settled();
  wired.say({ id: 1, error: { code: 401, message: "\u001b[2Jno token=abcdefghijkl" } });
  expect(await failed).toMatchObject({
    code: "ACP_REFUSED",
    rpcCode: 401,
    message: "the agent refused session/list: no token=*** (401)",
  });
});

test("requests that are not known are refused at once; a method of Object is not known", async () => {
  const wired = new Wired();
  wired.say({ id: "x", method: "fs/read_text_file", params: {} }, { id: 0, method: "constructor" });
  await settled();
  expect(wired.sent).toEqual([
    { jsonrpc: "2.0", id: "x", error: { code: -32601, message: "Method not found" } },
    { jsonrpc: "2.0", id: 0, error: { code: -32601, message: "Method not found" } },
  ]);
  expect(wired.connection.counts.unknownRequests).toBe(2);
});

test("malformed lines are counted and never answered; too many of them are no agent", async () => {
  const wired = new Wired();
  wired.write("hello\n[]\n");
  wired.say({ method: "session/update", params: { sessionId: 5 } }, { method: "_other" });
  await settled();
  expect(wired.connection.counts).toMatchObject({ malformed: 3, ignored: 2 });
  expect(wired.malformed).toHaveLength(3);
  expect(wired.sent).toEqual([]);
  wired.write("junk\n".repeat(1_000));
  expect(await wired.connection.closed).toMatchObject({ reason: "protocol-error" });
});

test("what the agent says is handled one after the other, and let go of only when it is kept", async () => {
  const order: string[] = [];
  const kept = deferred<void>();
  const wired = new Wired(
    {},
    {
      updates: async (batch) => {
        order.push(`${batch.length} updates`);
        await kept.promise;
        order.push("kept");
      },
      answered: async ({ method }) => void order.push(method),
    },
  );
  const asked = wired.connection.request("session/list", {}, soon).then(() => order.push("told"));
  await settled();
  wired.say(wired.update("a"), wired.update("b"), { id: 1, result: {} });
  const end = wired.offset;
  wired.say(wired.update("c"));
  await settled();
  // Back-pressure: the next chunk is not even pulled.
  expect([order, wired.acked, wired.pulled]).toEqual([["2 updates"], 0, 1]);
  kept.resolve();
  await asked;
  await settled();
  expect(order.slice(0, 4)).toEqual(["2 updates", "kept", "session/list", "told"]);
  expect(wired.acked).toBe(wired.offset);
  expect(end).toBeLessThan(wired.offset);
});

test("a question is let go of when it is kept, not when it is answered", async () => {
  const kept = deferred<void>();
  const wired = new Wired({}, { questions: { "session/request_permission": () => kept.promise } });
  wired.say(permission(1), wired.update("a"));
  await settled();
  expect([wired.acked, wired.updates.length]).toEqual([0, 0]);
  kept.resolve();
  await settled();
  expect([wired.acked, wired.updates.length]).toEqual([wired.offset, 1]);
  expect(wired.connection.state.questions).toEqual([{ id: 1, method: "session/request_permission" }]);
});

test("a flood is handled in bounded batches, all of it, in order", async () => {
  const wired = new Wired();
  wired.say(...Array.from({ length: 10_000 }, (_, at) => wired.update(`${at}`)));
  while (wired.acked < wired.offset) await settled();
  expect(wired.updates).toHaveLength(10_000);
  expect(Math.max(...wired.batches)).toBe(defaults.acpBatchFrames);
  expect(wired.updates.map(({ update }) => (update["content"] as { text: string }).text)).toEqual(
    Array.from({ length: 10_000 }, (_, at) => `${at}`),
  );
});

test("updates of unknown kinds are kept as they came", async () => {
  const wired = new Wired();
  wired.say({
    method: "session/update",
    params: { sessionId: "s", update: { sessionUpdate: "new", x: [1] } },
  });
  await settled();
  expect(wired.updates[0]).toMatchObject({ end: wired.offset, update: { sessionUpdate: "new", x: [1] } });
});

test("what could not be kept is not let go of", async () => {
  const wired = new Wired({}, { updates: () => Promise.reject(new Error("disk full")) });
  wired.say(wired.update("a"));
  expect(await wired.connection.closed).toMatchObject({
    reason: "closed",
    message: expect.stringContaining("disk full") as string,
  });
  expect(wired.acked).toBe(0);
});

test("frames before one that is too large are still heard", async () => {
  const wired = new Wired({ maxFrameBytes: 1_000 });
  wired.say(wired.update("a"), wired.update("x".repeat(2_000)));
  expect(await wired.connection.closed).toMatchObject({ reason: "frame-too-large" });
  expect(wired.updates).toHaveLength(1);
});

test("so are those before one line too many that is none", async () => {
  const wired = new Wired();
  const update = JSON.stringify({ jsonrpc: "2.0", ...wired.update("a") });
  wired.write(`${"junk\n".repeat(1_000)}${update}\njunk\n`);
  expect(await wired.connection.closed).toMatchObject({ reason: "protocol-error" });
  await settled();
  expect(wired.updates).toHaveLength(1);
});

test("an answer that came in time counts, however long it takes to be kept", async () => {
  const kept = deferred<void>();
  const wired = new Wired({}, { answered: () => kept.promise });
  const asked = wired.connection.request("session/list", {}, soon);
  await settled();
  wired.say({ id: 1, result: { sessions: [] } });
  await settled();
  wired.clock.pass(5_000);
  kept.resolve();
  expect(await asked).toEqual({ sessions: [] });
});

test("the end of the output ends everything that waits", async () => {
  const wired = new Wired();
  const failed = wired.connection.request("session/list", {}, soon).catch((error: unknown) => error);
  await settled();
  wired.write('{"jsonrpc":"2.0"');
  wired.end();
  expect(await failed).toMatchObject({ code: "ACP_CLOSED", reason: "ended" });
  expect(wired.connection.counts.malformed).toBe(1);
  await expect(wired.connection.request("session/list", {}, soon)).rejects.toMatchObject({ reason: "ended" });
  await expect(wired.connection.notify("session/cancel", { sessionId: "s" })).rejects.toThrow(/ended/);
  expect(wired.clock.timers).toBe(0);
});

test("input that cannot be written fails the request and nothing else", async () => {
  let broken = true;
  const wired = new Wired({
    write: () => (broken ? Promise.reject(new Error("not now")) : Promise.resolve()),
  });
  await expect(wired.connection.request("session/list", {}, soon)).rejects.toThrow("not now");
  broken = false;
  const asked = wired.connection.request("session/list", {}, soon);
  await settled();
  wired.say({ id: 2, result: {} });
  expect(await asked).toEqual({});
});

test("a request that could not be noted is not sent", async () => {
  const wired = new Wired({}, { sending: () => Promise.reject(new Error("disk full")) });
  await expect(wired.connection.request("session/list", {}, soon)).rejects.toThrow("disk full");
  expect(wired.sent).toEqual([]);
  expect(wired.connection.state.pending).toEqual([]);
});

test("an agent that does not read its input holds up only itself", async () => {
  const wired = new Wired({ write: () => new Promise(() => undefined) });
  const failed = wired.connection
    .request("initialize", { protocolVersion: 1 }, { deadlineMs: 1_000, fatal: true })
    .catch((error: unknown) => error);
  wired.say(...Array.from({ length: 600 }, (_, id) => ({ id, method: "what" })));
  await settled();
  expect(wired.connection.counts.unknownRequests).toBe(1);
  wired.clock.pass(1_000);
  expect(await failed).toMatchObject({ code: "ACP_TIMEOUT" });
  expect(await wired.connection.closed).toMatchObject({ reason: "request-timeout" });
});

test("a silent turn ends; a turn that speaks, waits for a person, or is held up by us does not", async () => {
  const slow = deferred<void>();
  const wired = new Wired({}, { updates: () => slow.promise });
  const turn = wired.connection.watchTurn(1_000);
  wired.clock.pass(900);
  wired.say(wired.update("a"));
  await settled();
  wired.clock.pass(5_000);
  slow.resolve();
  await settled();
  wired.clock.pass(900);
  wired.say(permission(7));
  await settled();
  wired.clock.pass(60_000);
  await wired.connection.answer(7, { result: { outcome: { outcome: "cancelled" } } });
  wired.clock.pass(999);
  wired.say(wired.update("b"));
  await settled();
  turn[Symbol.dispose]();
  wired.clock.pass(60_000);
  expect(wired.connection.state).toMatchObject({ pending: [], questions: [] });
  wired.connection.watchTurn(1_000);
  // Junk is no sign of life.
  wired.clock.pass(600);
  wired.write("junk\n");
  await settled();
  wired.clock.pass(600);
  expect(await wired.connection.closed).toMatchObject({ reason: "no-frames" });
});

test("a question is answered once", async () => {
  const wired = new Wired();
  wired.say(permission(3), permission(3));
  await settled();
  expect(wired.questions).toHaveLength(1);
  expect(wired.malformed).toEqual(["an id that is in use"]);
  expect(await wired.connection.answer(3, { result: 1 })).toBe(true);
  expect(await wired.connection.answer(3, { result: 2 })).toBe(false);
  expect(wired.sent).toEqual([{ jsonrpc: "2.0", id: 3, result: 1 }]);
});

test("an agent that asks without end is refused beyond a bound", async () => {
  const wired = new Wired();
  wired.say(...Array.from({ length: 100 }, (_, id) => permission(id)));
  await settled();
  while (wired.acked < wired.offset) await settled();
  expect(wired.questions).toHaveLength(32);
  expect(wired.sent).toHaveLength(68);
  expect(wired.sent[0]).toMatchObject({ id: 32, error: { code: -32_000 } });
});

test("the next process goes on where the first one stopped: requests, questions, deadlines", async () => {
  const noted: PendingRequest[] = [];
  const first = new Wired(
    {},
    { sending: async (_, request) => void (request !== null && noted.push(request)) },
  );
  first.clock.pass(100);
  void first.connection
    .request("session/prompt", { sessionId: "s", prompt: [] }, { deadlineMs: 5_000 })
    .catch(() => undefined);
  await settled();
  expect(noted).toEqual(first.connection.state.pending);
  first.say(permission("q"), first.update("a"));
  await settled();

  const second = new Wired({ startAt: first.acked, restored: first.connection.state, firstId: 1 });
  expect(second.connection.state).toEqual(first.connection.state);
  const [prompt] = second.connection.state.pending;
  const answer = second.connection.answerTo(prompt!.id);
  // Ids are never used twice, whatever the clock says.
  void second.connection.request("session/list", {}, soon).catch(() => undefined);
  await settled();
  expect(second.sent.at(-1)).toMatchObject({ id: prompt!.id + 1 });
  expect(await second.connection.answer("q", { result: {} })).toBe(true);
  second.say({ id: prompt!.id, result: { stopReason: "end_turn" } });
  expect(await answer).toEqual({ stopReason: "end_turn" });

  const third = new Wired({ restored: first.connection.state });
  const late = third.connection.answerTo(prompt!.id).catch((error: unknown) => error);
  third.clock.pass(5_100);
  expect(await late).toMatchObject({ code: "ACP_TIMEOUT" });
});

test.each([2, 0, 1.5, -1])("an agent that answers version %s is not spoken to", async (protocolVersion) => {
  const wired = new Wired();
  const failed = initialize(wired.connection, info).catch((error: unknown) => error);
  await settled();
  expect(wired.sent[0]).toMatchObject({
    method: "initialize",
    params: { protocolVersion: 1, clientCapabilities: { terminal: false } },
  });
  wired.say({ id: 1, result: { protocolVersion } });
  expect(await failed).toMatchObject({ code: "ACP_CLOSED", reason: "wrong-version" });
  expect(await wired.connection.closed).toMatchObject({ reason: "wrong-version" });
});

test("version 1 is spoken", async () => {
  const wired = new Wired();
  const initialized = initialize(wired.connection, info);
  await settled();
  wired.say({ id: 1, result: { protocolVersion: 1, agentCapabilities: { loadSession: true } } });
  expect(await initialized).toMatchObject({ agentCapabilities: { loadSession: true } });
});

test.each([
  ["initialize", { protocolVersion: "1" }],
  ["session/new", {}],
  ["session/prompt", null],
] as const)("an answer to %s that lacks the essential is a protocol error", async (method, result) => {
  const wired = new Wired();
  const failed = wired.connection.request(method, {} as never, soon).catch((error: unknown) => error);
  await settled();
  wired.say({ id: 1, result });
  expect(await failed).toMatchObject({ reason: "protocol-error" });
  expect(await wired.connection.closed).toMatchObject({ reason: "protocol-error" });
});

test("the first reason to close stands", async () => {
  const wired = new Wired();
  wired.connection.close("no-frames", "a");
  wired.end();
  await wired.connection[Symbol.asyncDispose]();
  expect(await wired.connection.closed).toMatchObject({ reason: "no-frames" });
});
