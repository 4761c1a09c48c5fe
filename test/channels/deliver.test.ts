import { describe, expect, test } from "vitest";
import { Bell, bellChannel } from "../../src/channels/bell.js";
import type { Channel } from "../../src/channels/channel.js";
import { createDeliverer, createSessionInbox } from "../../src/channels/deliver.js";
import { defaults } from "../../src/defaults.js";
import { SessionHistory } from "../../src/sessions/history.js";
import { deliveryFailure, NEVER_ABORTED, sampleNotification } from "../support/http-receiver.js";
import { openSessionFixture, type SessionFixture } from "../support/session-fixture.js";

const none: ReadonlyMap<string, Channel> = new Map();

async function parent(): Promise<
  SessionFixture & {
    readonly history: SessionHistory;
    readonly id: string;
    readonly deliver: () => Promise<unknown>;
  }
> {
  const world = await openSessionFixture();
  const history = new SessionHistory(world.store, world.clock);
  const { id } = (await world.sessions.open("main")).session;
  const courier = createDeliverer(none, createSessionInbox(history));
  const deliver = () =>
    courier.deliver({ kind: "session", sessionId: id }, sampleNotification(), NEVER_ABORTED);
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
      { role: "system", text: sampleNotification().text, cause: "task-terminal:tsk_1", actor: "tasks" },
    ]);
    await world.history.acknowledge(world.id, [waiting[0]?.id ?? ""]);
    expect(await world.deliver()).toEqual({ status: "delivered", receipt: world.id });
    expect(await world.history.waiting(world.id)).toEqual([]);
  });

  test("that is closed, or never was, finds no parent", async () => {
    await using world = await parent();
    const courier = createDeliverer(none, createSessionInbox(world.history));
    const missing = await courier.deliver(
      { kind: "session", sessionId: "ses_none" },
      sampleNotification(),
      NEVER_ABORTED,
    );
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
    const failure = await deliveryFailure(world.deliver());
    expect(failure.message).toContain(`messages already wait for session ${world.id}`);
    expect(failure.permanent).toBe(false);
  });
});

describe("to a channel", () => {
  const inbox = createSessionInbox({ send: () => Promise.reject(new Error("no session is meant")) });

  test("goes by its name, with its address, and comes back with the receipt", async () => {
    const seen: unknown[] = [];
    const team: Channel = {
      deliver: async ({ id }, address) => {
        seen.push([id, address]);
        return "17";
      },
    };
    const courier = createDeliverer(new Map([["team", team]]), inbox);
    const target = { kind: "channel", channel: "team", address: "42" } as const;
    expect(await courier.deliver(target, sampleNotification(), NEVER_ABORTED)).toEqual({
      status: "delivered",
      receipt: "17",
    });
    expect(seen).toEqual([["task-terminal:tsk_1", "42"]]);
  });

  test("that is not in the config may be in that of another gateway, or the next", async () => {
    const target = { kind: "channel", channel: "gone", address: null } as const;
    const failure = await deliveryFailure(
      createDeliverer(none, inbox).deliver(target, sampleNotification(), NEVER_ABORTED),
    );
    expect(failure.message).toBe("there is no channel gone in the config");
    expect(failure.permanent).toBe(false);
  });

  test("after it was given up is not begun", async () => {
    const bell = new Bell();
    const heard: string[] = [];
    using _ = bell.listen(({ id }) => heard.push(id) > 0);
    const courier = createDeliverer(new Map([["bell", bellChannel(bell)]]), inbox);
    const target = { kind: "channel", channel: "bell", address: null } as const;
    await expect(courier.deliver(target, sampleNotification(), AbortSignal.abort())).rejects.toThrow();
    expect(heard).toEqual([]);
  });
});

test("a bell rings on every terminal that is attached and not about to leave; where none is, nothing was delivered", async () => {
  const bell = new Bell();
  const channel = bellChannel(bell);
  const heard: string[] = [];
  const hear = ({ id }: { readonly id: string }): boolean => heard.push(id) > 0;
  using _leaving = bell.listen(() => false);
  const one = bell.listen(hear);
  const other = bell.listen(hear);
  expect(await channel.deliver(sampleNotification(), null, NEVER_ABORTED)).toBe("2 terminals");
  one[Symbol.dispose]();
  expect(await channel.deliver(sampleNotification(), null, NEVER_ABORTED)).toBe("1 terminal");
  other[Symbol.dispose]();
  const failure = await deliveryFailure(channel.deliver(sampleNotification(), null, NEVER_ABORTED));
  expect(failure.message).toBe("no terminal is attached that could ring");
  expect(failure.permanent).toBe(false);
  expect(heard).toHaveLength(3);
});
