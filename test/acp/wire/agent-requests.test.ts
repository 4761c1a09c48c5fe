import { expect, test } from "vitest";
import { deferred } from "../../../src/async/deferred.js";
import { ConnectionFixture, flushPending, permissionRequest } from "./connection-fixture.js";

test("unknown methods, also those of Object, are refused", async () => {
  const fixture = new ConnectionFixture();
  await fixture.receive(
    { id: "x", method: "fs/read_text_file", params: {} },
    { id: 0, method: "constructor" },
  );
  expect(fixture.sent).toEqual([
    { jsonrpc: "2.0", id: "x", error: { code: -32601, message: "Method not found" } },
    { jsonrpc: "2.0", id: 0, error: { code: -32601, message: "Method not found" } },
  ]);
  expect(fixture.connection.counts.unknownRequests).toBe(2);
});

test("a request is acknowledged when it is stored, not when it is answered", async () => {
  const kept = deferred<void>();
  const fixture = new ConnectionFixture(
    {},
    { requests: { "session/request_permission": () => kept.promise } },
  );
  await fixture.receive(permissionRequest(1), fixture.update("a"));
  expect([fixture.acked, fixture.updates.length]).toEqual([0, 0]);
  kept.resolve();
  await flushPending();
  expect([fixture.acked, fixture.updates.length]).toEqual([fixture.offset, 1]);
  expect(fixture.connection.state.openRequests).toEqual([{ id: 1, method: "session/request_permission" }]);
});

test("a turn ends at its limit without output, unless the agent waits for an answer or its frames are being handled", async () => {
  const slow = deferred<void>();
  const fixture = new ConnectionFixture({}, { onUpdates: () => slow.promise });
  const turn = fixture.connection.watchTurn(60_000, 1_000);
  fixture.clock.advance(900);
  await fixture.receive(fixture.update("a"));
  fixture.clock.advance(5_000);
  slow.resolve();
  await flushPending();
  fixture.clock.advance(900);
  await fixture.receive(permissionRequest(7));
  fixture.clock.advance(60_000);
  await fixture.connection.answer(7, { result: { outcome: { outcome: "cancelled" } } });
  fixture.clock.advance(999);
  await fixture.receive(fixture.update("b"));
  turn[Symbol.dispose]();
  fixture.clock.advance(60_000);
  expect(fixture.connection.state).toMatchObject({ pending: [], openRequests: [] });
  fixture.connection.watchTurn(60_000, 1_000);
  // Junk is no sign of life.
  fixture.clock.advance(600);
  await fixture.write("junk\n");
  fixture.clock.advance(600);
  expect(await fixture.connection.closed).toMatchObject({ reason: "no-frames" });
});

test("silence of any length is reported once, and closes nothing without a limit", async () => {
  const stalls: number[] = [];
  let active = 0;
  const fixture = new ConnectionFixture(
    {},
    { onStall: async (ms) => void stalls.push(ms), onActivity: async () => void active++ },
  );
  const turn = fixture.connection.watchTurn(1_000, null);
  fixture.clock.advance(999);
  expect(stalls).toEqual([]);
  fixture.clock.advance(86_400_000);
  expect(stalls).toEqual([1_000]);
  await fixture.receive(fixture.update("a"));
  expect(active).toBe(1);
  fixture.clock.advance(5_000);
  expect(stalls).toEqual([1_000, 1_000]);
  turn[Symbol.dispose]();
  await fixture.receive(fixture.update("b"));
  fixture.clock.advance(86_400_000);
  expect(stalls).toHaveLength(2);
  expect(fixture.connection.isClosed).toBe(false);
});

test("a request is answered once", async () => {
  const fixture = new ConnectionFixture();
  await fixture.receive(permissionRequest(3), permissionRequest(3));
  expect(fixture.questions).toHaveLength(1);
  expect(fixture.malformed).toEqual(["a request id that is in use"]);
  expect(await fixture.connection.answer(3, { result: 1 })).toBe(true);
  expect(await fixture.connection.answer(3, { result: 2 })).toBe(false);
  expect(fixture.sent).toEqual([{ jsonrpc: "2.0", id: 3, result: 1 }]);
});

test("open requests of an agent are bounded", async () => {
  const fixture = new ConnectionFixture();
  await fixture.receive(...Array.from({ length: 100 }, (_, id) => permissionRequest(id)));
  while (fixture.acked < fixture.offset) await flushPending();
  expect(fixture.questions).toHaveLength(32);
  expect(fixture.sent).toHaveLength(68);
  expect(fixture.sent[0]).toMatchObject({ id: 32, error: { code: -32_000 } });
});
