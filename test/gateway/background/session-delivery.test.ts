import { afterEach, beforeEach, expect, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { SessionDelivery } from "../../../src/gateway/background/session-delivery.js";
import { acknowledgeReadMessages } from "../../../src/gateway/background/read-receipts.js";
import type { AcpSession } from "../../../src/model/acp/session-and-turn.js";
import type { OutboxEntry, SessionTarget } from "../../../src/model/outbox.js";
import { SessionHistory } from "../../../src/sessions/messages-and-inbox.js";
import { newSession } from "../../support/store/session-samples.js";
import { openTaskRegistry } from "../../support/task-registry.js";

const CHAT = { kind: "channel", channel: "user", address: "42" } as const;

let registry: Awaited<ReturnType<typeof openTaskRegistry>>;
let sessionId: string;
let target: SessionTarget;
let mode: AcpSession["mode"];
let busy: boolean;
let now: number;

beforeEach(async () => {
  registry = await openTaskRegistry();
  sessionId = (await registry.store.createSession(newSession())).session.id;
  target = { kind: "session", sessionId, wake: true, fallback: CHAT };
  [mode, busy, now] = ["session", false, Date.now()];
});
afterEach(() => registry[Symbol.asyncDispose]());

/** As after a restart: only the store is kept. The session has an agent. */
function waker(): SessionDelivery {
  const { store } = registry;
  return new SessionDelivery({
    store: {
      getTask: (id) => store.getTask(id),
      commitTask: (...change) => store.commitTask(...change),
      listOutbox: (filter) => store.listOutbox(filter),
      listMessages: (id, filter) => store.listMessages(id, filter),
      getSession: (id) => store.getSession(id),
      getAcpSession: () => Promise.resolve({ mode, state: "ready" } as AcpSession),
      listAcpTurns: () => Promise.resolve(busy ? [{} as never] : []),
    },
    history: new SessionHistory(store),
    onNotice: () => undefined,
    now: () => now,
  });
}

/** The entry of an ended task, claimed. */
async function endedTask(): Promise<OutboxEntry> {
  const { taskId } = await registry.finishTask({ targets: [target] });
  const claimed = await registry.store.claimOutbox({ owner: "a", limit: 9, leaseMs: 9_000 });
  return claimed.find((entry) => entry.taskId === taskId) ?? expect.fail("it is not due");
}

const messages = async () =>
  (await registry.store.listMessages(sessionId, { limit: 99 })).map(({ deliver, deliveredAt }) => ({
    deliver,
    read: deliveredAt !== null,
  }));
const toUser = async ({ taskId }: OutboxEntry): Promise<number> =>
  (await registry.store.listOutbox({ taskId })).filter(({ target: { kind } }) => kind === "channel").length;

test("a result wakes the agent once, however often it is delivered", async () => {
  const entry = await endedTask();
  for (let attempt = 0; attempt < 2; attempt += 1)
    expect(await waker().deliver(target, entry.notification)).toEqual({ status: "session_queued" });
  expect(await messages()).toEqual([{ deliver: "wake", read: false }]);
  expect(await toUser(entry)).toBe(0);
});

test("a session that cannot be woken gets a notice, and the user one message", async () => {
  mode = "run";
  const entry = await endedTask();
  for (let attempt = 0; attempt < 2; attempt += 1)
    expect(await waker().deliver(target, entry.notification)).toEqual({ status: "session_queued" });
  expect(await messages()).toEqual([{ deliver: "next-turn", read: false }]);
  expect(await toUser(entry)).toBe(1);
  expect(await registry.store.getTask(entry.taskId)).toMatchObject({ delivery: "pending" });
});

test("an agent that is woken too often in an hour is left alone, and the user is notified", async () => {
  for (let count = 0; count < defaults.wakesPerHour; count += 1)
    await waker().deliver(target, (await endedTask()).notification);
  const entry = await endedTask();
  await waker().deliver(target, entry.notification);
  expect((await messages()).at(-1)).toEqual({ deliver: "next-turn", read: false });
  expect(await toUser(entry)).toBe(1);
});

test("a result that has not become a turn of an idle agent for a minute goes to the user, once", async () => {
  const { store } = registry;
  const entry = await endedTask();
  await waker().deliver(target, entry.notification);
  await store.settleOutbox(entry, { status: "session_queued", at: now });
  const look = () => acknowledgeReadMessages(store, { waker: waker() });
  await look();
  busy = true;
  now += 2 * defaults.wakeWaitMs;
  await look();
  expect(await toUser(entry)).toBe(0);
  busy = false;
  await look();
  await look();
  expect(await toUser(entry)).toBe(1);
  expect(await messages()).toEqual([
    { deliver: "wake", read: true },
    { deliver: "next-turn", read: false },
  ]);
  expect((await store.listOutbox({ taskId: entry.taskId })).map(({ status }) => status).toSorted()).toEqual([
    "delivered",
    "pending",
  ]);
});

test("a gateway that was killed between the withdrawal and the message to the user is completed by the next", async () => {
  const { store } = registry;
  const entry = await endedTask();
  await waker().deliver(target, entry.notification);
  await store.settleOutbox(entry, { status: "session_queued", at: now });
  const history = new SessionHistory(store);
  const cause = `${entry.notification.id}:notice`;
  await history.send(sessionId, "system", { text: "x", actor: "tasks", cause, deliver: "next-turn" });
  const [wake] = await store.listMessages(sessionId, { deliver: "wake", limit: 1 });
  await history.acknowledge(sessionId, [wake?.id ?? ""]);
  await acknowledgeReadMessages(store, { waker: waker() });
  expect(await toUser(entry)).toBe(1);
});

test("the user is notified if the session is closed before its agent was woken", async () => {
  const { store } = registry;
  const entry = await endedTask();
  await waker().deliver(target, entry.notification);
  await store.settleOutbox(entry, { status: "session_queued", at: now });
  await store.closeSession(sessionId, "test", now);
  await acknowledgeReadMessages(store, { waker: waker() });
  expect(await toUser(entry)).toBe(1);
  const later = await endedTask();
  expect(await waker().deliver(target, later.notification)).toEqual({ status: "parent_missing" });
  expect(await toUser(later)).toBe(1);
});
