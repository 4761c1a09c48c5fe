import { expect, test } from "vitest";
import type { SessionUpdate } from "../../../src/acp/wire/message.js";
import {
  type AdapterFixture,
  misbehavingAgent,
  openAdapterFixture,
} from "../../support/agents/adapter-fixture.js";

const SOON = 400;
const MEGABYTE = 1024 * 1024;

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    (value) => ({ succeeded: value }),
    (error: unknown) => error,
  );
}

test.each([
  ["never-initialize", (agent: AdapterFixture) => agent.open({ initializeMs: SOON })],
  ["half-frames", (agent: AdapterFixture) => agent.open().then(() => agent.prompt(2 * SOON))],
  ["never-new", (agent: AdapterFixture) => agent.open({ newMs: SOON })],
  ["never-prompt", (agent: AdapterFixture) => agent.open().then(() => agent.prompt(SOON))],
  ["ignores-cancel", cancelInVain],
  ["asks-forever", (agent: AdapterFixture) => agent.open().then(() => agent.prompt(SOON))],
])("%s: the request times out, and nothing is left", async (mode, talk) => {
  const agent = await openAdapterFixture(misbehavingAgent(mode));
  expect(await failure(talk(agent))).toMatchObject({ code: "ACP_TIMEOUT" });
  const { closed, record } = await agent.waitForExit();
  expect(closed).toMatchObject({ code: "ACP_CLOSED", reason: "request-timeout" });
  expect(record.exit).toMatchObject({ reason: "manual-cancel", actor: "acp: request-timeout" });
  if (mode === "asks-forever") expect(agent.permissions).toBeGreaterThan(1);
  if (mode === "half-frames") expect(agent.adapter.connection.counts.malformed).toBe(1);
});

async function cancelInVain(agent: AdapterFixture): Promise<void> {
  await agent.open();
  const turn = agent.prompt(2 * SOON);
  await agent.cancel();
  await turn;
}

test("a silent turn is ended after the inactivity limit", async () => {
  const agent = await openAdapterFixture(misbehavingAgent("ignores-cancel"));
  await agent.open();
  agent.adapter.connection.watchTurn(SOON);
  expect(await failure(agent.prompt())).toMatchObject({ reason: "no-frames" });
  expect((await agent.waitForExit()).closed.reason).toBe("no-frames");
});

test("malformed lines are counted and not answered, and too many close the connection", async () => {
  const shown: string[] = [];
  const agent = await openAdapterFixture(misbehavingAgent("garbage"), {
    handlers: { onMalformed: (_, excerpt) => shown.push(excerpt) },
  });
  expect(await failure(agent.open())).toMatchObject({ reason: "protocol-error" });
  await agent.waitForExit();
  expect(shown).toHaveLength(1_001);
  expect(shown[0]).not.toMatch(/\u001b|\u0007|pwned/);
});

test.each(["giant-frame", "unterminated"])("%s: refused at the limit, in bounded memory", async (mode) => {
  const agent = await openAdapterFixture(misbehavingAgent(mode));
  await agent.open();
  const before = process.memoryUsage().rss;
  expect(await failure(agent.prompt())).toMatchObject({ reason: "frame-too-large" });
  // The cap, once more while its buffer doubles, and what has been read and is not yet forgotten.
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * MEGABYTE);
  expect((await agent.waitForExit()).closed.reason).toBe("frame-too-large");
});

test("20,000 frames a second are handled in order and in bounded memory until the deadline", async () => {
  let next = 0;
  let broken = 0;
  const agent = await openAdapterFixture(misbehavingAgent("flood"), {
    handlers: {
      onUpdates: async (batch: readonly SessionUpdate[]) => {
        for (const { update } of batch)
          if ((update["content"] as { text: string }).text !== `${next++}`) broken++;
      },
    },
  });
  await agent.open();
  const before = process.memoryUsage().rss;
  expect(await failure(agent.prompt(1_500))).toMatchObject({ code: "ACP_TIMEOUT" });
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * MEGABYTE);
  await agent.waitForExit();
  expect(broken).toBe(0);
  expect(next).toBeGreaterThan(2_000);
});

test("an agent that closes its output and keeps running is stopped", async () => {
  const agent = await openAdapterFixture(misbehavingAgent("closes-stdout"), { ownExitMs: 200 });
  await agent.open();
  expect(await failure(agent.prompt())).toMatchObject({ reason: "ended" });
  const { record } = await agent.waitForExit();
  expect(record.exit).toMatchObject({ actor: "acp: ended" });
});

test("the whole frames of an agent that dies inside a frame count, the incomplete one does not", async () => {
  const agent = await openAdapterFixture(misbehavingAgent("dies-mid-frame"));
  await agent.open();
  const turn = agent.beginTurn();
  expect(await failure(agent.prompt())).toMatchObject({ reason: "ended" });
  const { closed, record } = await agent.waitForExit();
  expect(closed.message).toContain("middle of a frame");
  expect(record.exit).toMatchObject({ code: 3 });
  expect(turn.text.text).toBe("last words");
});

test("a second answer has no effect", async () => {
  const agent = await openAdapterFixture(misbehavingAgent("answers-twice"));
  await agent.open();
  expect(await agent.prompt()).toBe("end_turn");
  expect(await agent.prompt()).toBe("end_turn");
  expect(agent.adapter.connection.counts.answeredTwice).toBeGreaterThan(0);
  await agent.adapter.close();
  await agent.waitForExit();
});

test("unknown methods are refused, and the turn continues", async () => {
  const agent = await openAdapterFixture(misbehavingAgent("unknown-methods"));
  await agent.open();
  expect(await agent.prompt()).toBe("end_turn");
  expect(agent.adapter.connection.counts.unknownRequests).toBe(500);
  await agent.adapter.close();
  await agent.waitForExit();
});

test("frames are read from single bytes, with CRLF and blank lines", async () => {
  const agent = await openAdapterFixture(misbehavingAgent("in-pieces"));
  await agent.open();
  const turn = agent.beginTurn();
  expect(await agent.prompt()).toBe("end_turn");
  expect(turn.text.text).toBe("grün 🌱");
  const { record } = await agent.adapter.close();
  await agent.waitForExit();
  // It left at the end of its input, by itself.
  expect(record.exit).toMatchObject({ reason: "exit", code: 0 });
});

test("an agent that answers with protocol version 2 is refused", async () => {
  const agent = await openAdapterFixture(misbehavingAgent("wrong-version"));
  expect(await failure(agent.open())).toMatchObject({ code: "ACP_CLOSED", reason: "wrong-version" });
  expect((await agent.waitForExit()).closed.reason).toBe("wrong-version");
});

test("an agent that ignores SIGTERM and the end of its input is killed, and its stderr is redacted", async () => {
  const agent = await openAdapterFixture(misbehavingAgent("stays"));
  await agent.open();
  await agent.adapter.connection.request(
    "session/prompt",
    { sessionId: "s", prompt: [{ type: "text", text: "my token=abcdefghijklmnop" }] },
    { deadlineMs: 20_000 },
  );
  agent.adapter.connection.close();
  const { record } = await agent.waitForExit();
  expect(record.exit).toMatchObject({ reason: "manual-cancel", signal: "SIGKILL" });
  expect(agent.adapter.stderr.text).toContain("working on");
  expect(agent.adapter.stderr.text).not.toContain("abcdefghijklmnop");
});
