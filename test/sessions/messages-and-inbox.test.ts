import { afterEach, beforeEach, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { BadInput, InboxFull, SessionClosed } from "../../src/errors.js";
import type { SessionMessage } from "../../src/model/session-message.js";
import { SessionHistory } from "../../src/sessions/messages-and-inbox.js";
import { findDelivered, packMessages } from "../../src/sessions/pack-messages.js";
import { openSessionFixture, type SessionFixture } from "../support/sessions/session-fixture.js";

let world: SessionFixture;
let history: SessionHistory;
let id: string;

beforeEach(async () => {
  world = await openSessionFixture();
  history = new SessionHistory(world.store, world.clock);
  ({ id } = (await world.sessions.open("main")).session);
});

afterEach(() => world[Symbol.asyncDispose]());

const saying = (text: string) => ({ text, actor: "cli:ada" });

test("a sent message waits until it is acknowledged, also after a restart", async () => {
  const first = await history.send(id, "user", saying("one"));
  const second = await history.send(id, "system", saying("two"));
  const texts = async (of = history): Promise<string[]> => (await of.waiting(id)).map(({ text }) => text);
  expect(await texts()).toEqual(["one", "two"]);
  // Taken, but its taker has gone before the agent had it.
  expect(await texts(new SessionHistory(world.store, world.clock))).toEqual(["one", "two"]);
  world.clock.wallTime += 5;
  expect(await history.acknowledge(id, [first.id])).toEqual([first.id]);
  expect(await history.acknowledge(id, [first.id])).toEqual([]);
  expect(await texts()).toEqual(["two"]);
  expect(await history.list(id, { limit: 9 })).toEqual([
    { ...first, deliveredAt: world.clock.wallTime },
    second,
  ]);
});

test("a recorded message never waits, and is stored once per cause", async () => {
  const cause = "turn-1";
  const first = await history.record(id, "agent", { ...saying("done"), cause });
  expect(await history.record(id, "agent", { ...saying("done again"), cause })).toEqual(first);
  expect(await history.waiting(id)).toEqual([]);
  expect(await history.count(id)).toEqual({
    total: 1,
    pending: 0,
    undelivered: 0,
    lastAt: world.clock.wallTime,
  });
});

test("a listener is called for sent messages only", async () => {
  const heard: string[] = [];
  {
    using _listening = history.onMessage((sessionId) => heard.push(sessionId));
    await history.record(id, "user", saying("recorded"));
    expect(heard).toEqual([]);
    await history.send(id, "user", saying("sent"));
  }
  await history.send(id, "user", saying("sent"));
  expect(heard).toEqual([id]);
});

test("inbox and message size are limited, and a closed session takes no message", async () => {
  await expect(
    history.send(id, "user", saying("x".repeat(defaults.messageChars + 1))),
  ).rejects.toBeInstanceOf(BadInput);
  for (let at = 0; at < defaults.inboxMessages; at++) await history.send(id, "user", saying("x"));
  await expect(history.send(id, "user", saying("one more"))).rejects.toBeInstanceOf(InboxFull);
  await history.record(id, "agent", saying("still answers"));
  await world.sessions.close(id, "cli:ada");
  await expect(history.record(id, "agent", saying("late"))).rejects.toBeInstanceOf(SessionClosed);
});

test("a text that databases cannot store is stored readably", async () => {
  const { text } = await history.send(id, "user", saying("a\0b\ud800c"));
  expect(text).toBe("a\ufffdb\ufffdc");
  expect((await history.waiting(id))[0]?.text).toBe(text);
});

const noSenders = { get: async () => null };

function notice(seq: number): SessionMessage {
  return {
    ...{ id: `msg_${seq}`, sessionId: "ses_a", seq, role: "system", fromSessionId: null, actor: "tasks" },
    ...{ text: "Task “make test” succeeded: ok", runId: null, cause: `task-terminal:${seq}`, at: 0 },
    ...{ deliver: "next-turn", turnId: null, inVain: 0, deliveredAt: null },
  };
}

test("of messages with the same text, those that did not fit are not delivered", async () => {
  const waiting = [1, 2, 3, 4].map(notice);
  const { messages, text } = await packMessages(waiting, noSenders, 200);
  expect(messages).toEqual(["msg_1", "msg_2"]);
  expect(await findDelivered(`${text}go on`, waiting, noSenders)).toEqual(messages);
});
