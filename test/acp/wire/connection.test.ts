import { expect, test } from "vitest";
import type { PendingRequest } from "../../../src/acp/wire/pending-requests.js";
import { deferred } from "../../../src/async/deferred.js";
import { defaults } from "../../../src/defaults.js";
import { ConnectionFixture, flushPending, permissionRequest } from "./connection-fixture.js";

const soon = { deadlineMs: 1_000 };

test("answers reach their requests in any order", async () => {
  const fixture = new ConnectionFixture();
  const { answer: one } = await fixture.request();
  const { answer: two } = await fixture.request();
  expect(fixture.sent.map(({ id, method }) => [id, method])).toEqual([
    [1, "session/list"],
    [2, "session/list"],
  ]);
  await fixture.receive({ id: 2, result: { sessions: ["b"] } }, { id: 1, result: { sessions: ["a"] } });
  expect(await one).toEqual({ sessions: ["a"] });
  expect(await two).toEqual({ sessions: ["b"] });
  expect(fixture.connection.state.pending).toEqual([]);
});

test("a request that is not answered in time fails, and its late answer is counted and dropped", async () => {
  const fixture = new ConnectionFixture();
  const { answer } = await fixture.request();
  fixture.clock.advance(1_000);
  await expect(answer).rejects.toMatchObject({
    code: "ACP_TIMEOUT",
    method: "session/list",
    deadlineMs: 1_000,
  });
  await fixture.receive({ id: 1, result: {} });
  expect(fixture.connection.counts).toMatchObject({ late: 1, answeredTwice: 0, unmatched: 0 });
  expect(fixture.clock.timers).toBe(0);
});

test("repeated and unmatched answers are counted and have no effect", async () => {
  const fixture = new ConnectionFixture();
  const { answer } = await fixture.request();
  await fixture.receive({ id: 1, result: { sessions: [1] } }, { id: 1, result: { sessions: [2] } });
  await fixture.receive(
    { id: 77, result: {} },
    { id: null, error: { code: -32700, message: "parse error" } },
  );
  expect(await answer).toEqual({ sessions: [1] });
  await flushPending();
  expect(fixture.connection.counts).toMatchObject({ answeredTwice: 1, unmatched: 2 });
});

test("an error keeps its code, and its text is sanitized", async () => {
  const fixture = new ConnectionFixture();
  const { answer } = await fixture.request();
  await fixture.receive({ id: 1, error: { code: 401, message: "\u001b[2Jno token=abcdefghijkl" } });
  await expect(answer).rejects.toMatchObject({
    code: "ACP_REFUSED",
    rpcCode: 401,
    message: "the agent refused session/list: no token=*** (401)",
  });
});

test("malformed lines are counted and not answered, and too many close the connection", async () => {
  const fixture = new ConnectionFixture();
  await fixture.write("hello\n[]\n");
  await fixture.receive({ method: "session/update", params: { sessionId: 5 } }, { method: "_other" });
  expect(fixture.connection.counts).toMatchObject({ malformed: 3, ignored: 2 });
  expect(fixture.malformed).toHaveLength(3);
  expect(fixture.sent).toEqual([]);
  await fixture.write("junk\n".repeat(1_000));
  expect(await fixture.connection.closed).toMatchObject({ reason: "protocol-error" });
});

test("frames are handled in order and acknowledged after their effects are stored", async () => {
  const order: string[] = [];
  const kept = deferred<void>();
  const fixture = new ConnectionFixture(
    {},
    {
      onUpdates: async (batch) => {
        order.push(`${batch.length} updates`);
        await kept.promise;
        order.push("kept");
      },
      onAnswer: async ({ method }) => void order.push(method),
    },
  );
  const { answer } = await fixture.request();
  const answered = answer.then(() => order.push("answered"));
  await fixture.receive(fixture.update("a"), fixture.update("b"), { id: 1, result: {} });
  await fixture.receive(fixture.update("c"));
  // Back-pressure: the next chunk is not even pulled.
  expect([order, fixture.acked, fixture.pulled]).toEqual([["2 updates"], 0, 1]);
  kept.resolve();
  await answered;
  await flushPending();
  expect(order.slice(0, 4)).toEqual(["2 updates", "kept", "session/list", "answered"]);
  expect(fixture.acked).toBe(fixture.offset);
});

test("a flood of frames is handled in bounded batches and in order", async () => {
  const fixture = new ConnectionFixture();
  await fixture.receive(...Array.from({ length: 10_000 }, (_, at) => fixture.update(`${at}`)));
  while (fixture.acked < fixture.offset) await flushPending();
  expect(fixture.updates).toHaveLength(10_000);
  expect(Math.max(...fixture.batches)).toBe(defaults.acpBatchFrames);
  expect(fixture.updates.map(({ update }) => (update["content"] as { text: string }).text)).toEqual(
    Array.from({ length: 10_000 }, (_, at) => `${at}`),
  );
});

test("updates of unknown kinds are passed on unchanged", async () => {
  const fixture = new ConnectionFixture();
  await fixture.receive({
    method: "session/update",
    params: { sessionId: "s", update: { sessionUpdate: "new", x: [1] } },
  });
  expect(fixture.updates[0]).toMatchObject({ end: fixture.offset, update: { sessionUpdate: "new", x: [1] } });
});

test("a frame whose effects could not be stored is not acknowledged", async () => {
  const fixture = new ConnectionFixture({}, { onUpdates: () => Promise.reject(new Error("disk full")) });
  await fixture.receive(fixture.update("a"));
  expect(await fixture.connection.closed).toMatchObject({
    reason: "closed",
    message: expect.stringContaining("disk full") as string,
  });
  expect(fixture.acked).toBe(0);
});

test.each([
  ["a frame that is too large", "frame-too-large", ["", `${"x".repeat(2_000)}\n`]],
  ["the last tolerated malformed line", "protocol-error", ["junk\n".repeat(1_000), "junk\n"]],
] as const)("frames before %s are handled", async (_, reason, [before, after]) => {
  const fixture = new ConnectionFixture({ maxFrameBytes: 1_000 });
  const update = JSON.stringify({ jsonrpc: "2.0", ...fixture.update("a") });
  await fixture.write(`${before}${update}\n${after}`);
  expect(await fixture.connection.closed).toMatchObject({ reason });
  await flushPending();
  expect(fixture.updates).toHaveLength(1);
});

test("an answer that arrives in time counts, even if storing it takes long", async () => {
  const kept = deferred<void>();
  const fixture = new ConnectionFixture({}, { onAnswer: () => kept.promise });
  const { answer } = await fixture.request();
  await fixture.receive({ id: 1, result: { sessions: [] } });
  fixture.clock.advance(5_000);
  kept.resolve();
  expect(await answer).toEqual({ sessions: [] });
});

test("the end of the output fails all pending requests", async () => {
  const fixture = new ConnectionFixture();
  const { answer } = await fixture.request();
  await fixture.write('{"jsonrpc":"2.0"');
  fixture.end();
  await expect(answer).rejects.toMatchObject({ code: "ACP_CLOSED", reason: "ended" });
  expect(fixture.connection.counts.malformed).toBe(1);
  await expect((await fixture.request()).answer).rejects.toMatchObject({ reason: "ended" });
  await expect(fixture.connection.notify("session/cancel", { sessionId: "s" })).rejects.toThrow(/ended/);
  expect(fixture.clock.timers).toBe(0);
});

test("a failed write fails only its request", async () => {
  let broken = true;
  const fixture = new ConnectionFixture({
    write: () => (broken ? Promise.reject(new Error("not now")) : Promise.resolve()),
  });
  await expect((await fixture.request()).answer).rejects.toThrow("not now");
  broken = false;
  const { answer } = await fixture.request();
  await fixture.receive({ id: 2, result: {} });
  expect(await answer).toEqual({});
});

test("a request that could not be stored is not sent", async () => {
  const fixture = new ConnectionFixture({}, { beforeSend: () => Promise.reject(new Error("disk full")) });
  await expect((await fixture.request()).answer).rejects.toThrow("disk full");
  expect(fixture.sent).toEqual([]);
  expect(fixture.connection.state.pending).toEqual([]);
});

test("an agent that does not read its input blocks only itself", async () => {
  const fixture = new ConnectionFixture({ write: () => new Promise(() => undefined) });
  const failed = fixture.connection
    .request("initialize", { protocolVersion: 1 }, { deadlineMs: 1_000, fatal: true })
    .catch((error: unknown) => error);
  await fixture.receive(...Array.from({ length: 600 }, (_, id) => ({ id, method: "what" })));
  expect(fixture.connection.counts.unknownRequests).toBe(1);
  fixture.clock.advance(1_000);
  expect(await failed).toMatchObject({ code: "ACP_TIMEOUT" });
  expect(await fixture.connection.closed).toMatchObject({ reason: "request-timeout" });
});

test("the next process continues with the pending requests, open requests and deadlines", async () => {
  const noted: PendingRequest[] = [];
  const first = new ConnectionFixture(
    {},
    { beforeSend: async (_, request) => void (request !== null && noted.push(request)) },
  );
  first.clock.advance(100);
  void first.connection
    .request("session/prompt", { sessionId: "s", prompt: [] }, { deadlineMs: 5_000 })
    .catch(() => undefined);
  await flushPending();
  expect(noted).toEqual(first.connection.state.pending);
  await first.receive(permissionRequest("q"), first.update("a"));

  const second = new ConnectionFixture({
    startAt: first.acked,
    restored: first.connection.state,
    firstId: 1,
  });
  expect(second.connection.state).toEqual(first.connection.state);
  const [prompt] = second.connection.state.pending;
  const answer = second.connection.answerTo(prompt!.id);
  // Ids are never used twice, whatever the clock says.
  void second.connection.request("session/list", {}, soon).catch(() => undefined);
  await flushPending();
  expect(second.sent.at(-1)).toMatchObject({ id: prompt!.id + 1 });
  expect(await second.connection.answer("q", { result: {} })).toBe(true);
  await second.receive({ id: prompt!.id, result: { stopReason: "end_turn" } });
  expect(await answer).toEqual({ stopReason: "end_turn" });

  const third = new ConnectionFixture({ restored: first.connection.state });
  const late = third.connection.answerTo(prompt!.id).catch((error: unknown) => error);
  third.clock.advance(5_100);
  expect(await late).toMatchObject({ code: "ACP_TIMEOUT" });
});

test.each([
  ["initialize", { protocolVersion: "1" }],
  ["session/new", {}],
  ["session/prompt", null],
] as const)("an answer to %s that lacks the essential is a protocol error", async (method, result) => {
  const fixture = new ConnectionFixture();
  const failed = fixture.connection.request(method, {} as never, soon).catch((error: unknown) => error);
  await flushPending();
  await fixture.receive({ id: 1, result });
  expect(await failed).toMatchObject({ reason: "protocol-error" });
  expect(await fixture.connection.closed).toMatchObject({ reason: "protocol-error" });
});

test("the first reason to close stays", async () => {
  const fixture = new ConnectionFixture();
  fixture.connection.close("no-frames", "a");
  fixture.end();
  await fixture.connection[Symbol.asyncDispose]();
  expect(await fixture.connection.closed).toMatchObject({ reason: "no-frames" });
});
