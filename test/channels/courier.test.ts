import { describe, expect, test } from "vitest";
import { Bell, bellChannel } from "../../src/channels/bell.js";
import type { Channel } from "../../src/channels/channel.js";
import { createCourier } from "../../src/channels/courier.js";
import { sessionInbox } from "../../src/channels/session-inbox.js";
import { defaults } from "../../src/defaults.js";
import { History } from "../../src/sessions/history.js";
import { openWorld, type SessionWorld } from "../sessions/open-sessions.js";
import { failureOf, never, sample } from "./receiver.js";

const none: ReadonlyMap<string, Channel> = new Map();

async function parent(): Promise<
  SessionWorld & { readonly history: History; readonly id: string; readonly deliver: () => Promise<unknown> }
> {
  const world = await openWorld();
  const history = new History(world.store, world.clock);
  const { id } = (await world.sessions.open("main")).session;
  const courier = createCourier(none, sessionInbox(history));
  const deliver = () => courier.deliver({ kind: "session", sessionId: id }, sample(), never);
  return { ...world, history, id, deliver, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

describe("to a session", () => {
  test("is queued once, however often it is tried, and delivered when its agent has taken it", async () => {
    await using world = await parent();
    expect(await world.deliver()).toEqual({ status: "session_queued" });
    // Tried again, as after a crash between the delivery and its note.
    expect(await world.deliver()).toEqual({ status: "session_queued" });
    const waiting = await world.history.waiting(world.id);
    expect(waiting).toMatchObject([
      { role: "system", text: sample().text, cause: "task-terminal:tsk_1", actor: "tasks" },
    ]);
    await world.history.acknowledge(world.id, [waiting[0]?.id ?? ""]);
    expect(await world.deliver()).toEqual({ status: "delivered", receipt: world.id });
    expect(await world.history.waiting(world.id)).toEqual([]);
  });

  test("that is closed, or never was, finds no parent", async () => {
    await using world = await parent();
    const courier = createCourier(none, sessionInbox(world.history));
    const missing = await courier.deliver({ kind: "session", sessionId: "ses_none" }, sample(), never);
    await world.sessions.close(world.id, "test");
    expect([missing, await world.deliver()]).toEqual([
      { status: "parent_missing" },
      { status: "parent_missing" },
    ]);
  });

  test("that has no room may have some later", async () => {
    await using world = await parent();
    for (let at = 0; at < defaults.inboxMessages; at += 1)
      await world.history.send(world.id, "system", { text: "x", actor: "tasks" });
    const failure = await failureOf(world.deliver());
    expect(failure.message).toContain(`messages wait for session ${world.id} already`);
    expect(failure.permanent).toBe(false);
  });
});

describe("to a channel", () => {
  const inbox = sessionInbox({ send: () => Promise.reject(new Error("no session is meant")) });

  test("goes by its name, with its address, and comes back with the receipt", async () => {
    const seen: unknown[] = [];
    const team: Channel = {
      deliver: async ({ id }, address) => {
        seen.push([id, address]);
        return "17";
      },
    };
    const courier = createCourier(new Map([["team", team]]), inbox);
    const target = { kind: "channel", channel: "team", address: "42" } as const;
    expect(await courier.deliver(target, sample(), never)).toEqual({ status: "delivered", receipt: "17" });
    expect(seen).toEqual([["task-terminal:tsk_1", "42"]]);
  });

  test("that is not in the config may be in that of another gateway, or the next", async () => {
    const target = { kind: "channel", channel: "gone", address: null } as const;
    const failure = await failureOf(createCourier(none, inbox).deliver(target, sample(), never));
    expect(failure.message).toBe("there is no channel gone in the config");
    expect(failure.permanent).toBe(false);
  });

  test("after it was given up is not begun", async () => {
    const bell = new Bell();
    const heard: string[] = [];
    using _ = bell.hear(({ id }) => heard.push(id) > 0);
    const courier = createCourier(new Map([["bell", bellChannel(bell)]]), inbox);
    const target = { kind: "channel", channel: "bell", address: null } as const;
    await expect(courier.deliver(target, sample(), AbortSignal.abort())).rejects.toThrow();
    expect(heard).toEqual([]);
  });
});

test("a bell rings on every terminal that is attached and not about to leave; where none is, nothing was delivered", async () => {
  const bell = new Bell();
  const channel = bellChannel(bell);
  const heard: string[] = [];
  const hear = ({ id }: { readonly id: string }): boolean => heard.push(id) > 0;
  using _leaving = bell.hear(() => false);
  const one = bell.hear(hear);
  const other = bell.hear(hear);
  expect(await channel.deliver(sample(), null, never)).toBe("2 terminals");
  one[Symbol.dispose]();
  expect(await channel.deliver(sample(), null, never)).toBe("1 terminal");
  other[Symbol.dispose]();
  const failure = await failureOf(channel.deliver(sample(), null, never));
  expect(failure.message).toBe("no terminal is attached that could ring");
  expect(failure.permanent).toBe(false);
  expect(heard).toHaveLength(3);
});
