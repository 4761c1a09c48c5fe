import { describe, expect, test } from "vitest";
import { Bell, bellChannel } from "../../src/channels/bell.js";
import type { Channel } from "../../src/channels/channel.js";
import { createDeliver } from "../../src/channels/deliver.js";
import { defaults } from "../../src/defaults.js";
import { SessionHistory } from "../../src/sessions/messages-and-inbox.js";
import { deliveryFailure, NEVER_ABORTED, sampleNotification } from "../support/http-receiver.js";
import { openSessionFixture, type SessionFixture } from "../support/sessions/session-fixture.js";

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
  const deliver = () =>
    createDeliver(none, history)({ kind: "session", sessionId: id }, sampleNotification(), NEVER_ABORTED);
  return { ...world, history, id, deliver, [Symbol.asyncDispose]: () => world[Symbol.asyncDispose]() };
}

describe("a notification to a session", () => {
  test("is queued once over several attempts, and delivered when the agent has read it", async () => {
    await using world = await parent();
    expect(await world.deliver()).toEqual({ status: "session_queued" });
    // A second attempt, as after a crash before the first was recorded.
    expect(await world.deliver()).toEqual({ status: "session_queued" });
    const waiting = await world.history.waiting(world.id);
    expect(waiting).toMatchObject([
      { role: "system", text: sampleNotification().text, cause: "task-terminal:tsk_1", actor: "tasks" },
    ]);
    await world.history.acknowledge(world.id, [waiting[0]?.id ?? ""]);
    expect(await world.deliver()).toEqual({ status: "delivered", receipt: world.id });
    expect(await world.history.waiting(world.id)).toEqual([]);
  });

  test("finds no parent if the session is closed or does not exist", async () => {
    await using world = await parent();
    const missing = await createDeliver(none, world.history)(
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

  test("is retried if the inbox is full", async () => {
    await using world = await parent();
    for (let at = 0; at < defaults.inboxMessages; at += 1)
      await world.history.send(world.id, "system", { text: "x", actor: "tasks" });
    const failure = await deliveryFailure(world.deliver());
    expect(failure.message).toContain(`messages already wait for session ${world.id}`);
    expect(failure.permanent).toBe(false);
  });
});

describe("a notification to a channel", () => {
  const noSession = { send: () => Promise.reject(new Error("no session is a target")) };

  test("is passed to the channel with its address, and returns the receipt", async () => {
    const seen: unknown[] = [];
    const team: Channel = {
      deliver: async ({ id }, address) => {
        seen.push([id, address]);
        return "17";
      },
    };
    const deliver = createDeliver(new Map([["team", team]]), noSession);
    const target = { kind: "channel", channel: "team", address: "42" } as const;
    expect(await deliver(target, sampleNotification(), NEVER_ABORTED)).toEqual({
      status: "delivered",
      receipt: "17",
    });
    expect(seen).toEqual([["task-terminal:tsk_1", "42"]]);
  });

  test("is retried if the channel is not in the config, because another gateway may have it", async () => {
    const target = { kind: "channel", channel: "gone", address: null } as const;
    const failure = await deliveryFailure(
      createDeliver(none, noSession)(target, sampleNotification(), NEVER_ABORTED),
    );
    expect(failure.message).toBe("there is no channel gone in the config");
    expect(failure.permanent).toBe(false);
  });

  test("is not attempted after it was aborted", async () => {
    const bell = new Bell();
    const heard: string[] = [];
    using _ = bell.listen(({ id }) => heard.push(id) > 0);
    const deliver = createDeliver(new Map([["bell", bellChannel(bell)]]), noSession);
    const target = { kind: "channel", channel: "bell", address: null } as const;
    await expect(deliver(target, sampleNotification(), AbortSignal.abort())).rejects.toThrow();
    expect(heard).toEqual([]);
  });
});

test("a bell rings on every attached terminal that is not closing; without one the delivery fails", async () => {
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
  expect(failure.message).toBe("no terminal is attached");
  expect(failure.permanent).toBe(false);
  expect(heard).toHaveLength(3);
});
