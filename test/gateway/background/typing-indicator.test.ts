import { setMaxListeners } from "node:events";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Channel } from "../../../src/channels/channel.js";
import { TypingIndicator } from "../../../src/gateway/background/typing-indicator.js";
import { DeliveryFailed } from "../../../src/tasks/delivery-attempt.js";
import type { TaskInput } from "../../../src/tasks/tasks.js";
import { CHAT, PARENT } from "../../support/store/task-samples.js";
import { openTaskRegistry, SUCCEEDED_FINISH, type TaskRegistry } from "../../support/task-registry.js";
import { waitFor } from "../../support/wait-for.js";

const EVERY_MS = 20;
const never = new AbortController().signal;
setMaxListeners(0, never);
let registry: TaskRegistry;
let shown: (string | null)[];
let failure: Error | null;
let typing: TypingIndicator;
beforeEach(async () => {
  registry = await openTaskRegistry();
  shown = [];
  failure = null;
  const chat: Channel = {
    deliver: async () => null,
    typing: async (address) => {
      shown.push(address);
      if (failure !== null) throw failure;
    },
  };
  const mute: Channel = { deliver: async () => null };
  typing = new TypingIndicator(
    {
      store: registry.store,
      channels: new Map([
        ["chat", chat],
        ["mute", mute],
      ]),
    },
    EVERY_MS,
  );
});
afterEach(() => registry[Symbol.asyncDispose]());

/** Long enough that one more would have been seen. */
async function aWhile(): Promise<void> {
  const { taskId } = await registry.startTask({
    targets: [{ kind: "channel", channel: "chat", address: "clock" }],
  });
  const before = shown.filter((address) => address === "clock").length;
  typing.start(taskId, never);
  await waitFor("time has gone by", () => shown.filter((each) => each === "clock").length > before + 3);
  typing.stop(taskId);
}

const seen = (): number => shown.filter((address) => address === "42").length;

async function begin(input: Partial<TaskInput> = {}): Promise<string> {
  const { taskId } = await registry.startTask({ targets: [CHAT], ...input });
  typing.start(taskId, never);
  return taskId;
}

test.each(["acp", "subagent"] as const)(
  "is shown repeatedly while %s works, and not after its end",
  async (runtime) => {
    const id = await begin({ runtime });
    await waitFor("it was shown some times", () => seen() > 3);
    typing.stop(id);
    await registry.tasks.apply(id, { ...SUCCEEDED_FINISH, at: Date.now() });
    const then = seen();
    await aWhile();
    expect(seen()).toBe(then);
  },
);

test.each<[string, Partial<TaskInput>]>([
  ["a command", { runtime: "exec", policy: "done_only" }],
  ["another program", { runtime: "external" }],
  ["a silent task", { policy: "silent" }],
  ["a parent's background work", { targets: [PARENT] }],
  ["a task without a target", { targets: [] }],
  ["a channel that cannot", { targets: [{ kind: "channel", channel: "mute", address: "42" }] }],
  ["an unknown channel", { targets: [{ kind: "channel", channel: "gone", address: "42" }] }],
])("is not shown for %s", async (_, input) => {
  await begin(input);
  await aWhile();
  expect(seen()).toBe(0);
});

test("is shown by the task's record: not before the start, not while silent or stalled, not after an end by another gateway", async () => {
  const { task } = await registry.tasks.create({ runtime: "acp", key: null, text: "x", targets: [CHAT] });
  const { taskId } = task;
  const tell = (type: "start" | "heartbeat"): unknown =>
    registry.tasks.apply(taskId, { type, at: Date.now() });
  typing.start(taskId, never);
  await aWhile();
  expect(seen()).toBe(0);
  const isShown = async (): Promise<boolean> => {
    await aWhile();
    const before = seen();
    await aWhile();
    return seen() > before;
  };
  await tell("start");
  expect(await isShown()).toBe(true);
  for (const [policy, is] of [
    ["silent", false],
    ["state_changes", true],
  ] as const) {
    await registry.tasks.apply(taskId, { type: "policy", at: Date.now(), policy, actor: "operator" });
    expect(await isShown()).toBe(is);
  }
  await registry.tasks.apply(taskId, { type: "stall", at: Date.now(), silentMs: 600_000 });
  expect(await isShown()).toBe(false);
  await tell("heartbeat");
  expect(await isShown()).toBe(true);
  await registry.tasks.apply(taskId, { ...SUCCEEDED_FINISH, at: Date.now() });
  expect(await isShown()).toBe(false);
});

test("is shown once for several tasks of one chat, until the last has ended", async () => {
  const began = performance.now();
  const ids = await Promise.all(Array.from({ length: 20 }, () => begin()));
  await aWhile();
  await waitFor("it was shown", () => seen() > 0);
  // Twice as often as one at most, where twenty would be twenty times.
  expect(seen()).toBeLessThanOrEqual(1 + (2 * (performance.now() - began)) / EVERY_MS);
  const [last, ...others] = ids;
  for (const id of others) typing.stop(id);
  const then = seen();
  await aWhile();
  expect(seen()).toBeGreaterThan(then);
  typing.stop(last ?? "");
});

test.each([
  ["anything", new Error("no")],
  ["an error of the receiver", new DeliveryFailed("slow down", { retryAfterMs: 1 })],
])("that fails by %s is not retried soon, and not reported", async (_, why) => {
  failure = why;
  await begin();
  await begin();
  await waitFor("it was tried", () => seen() === 1);
  failure = null;
  await aWhile();
  expect(seen()).toBe(1);
});

test("ends with its gateway, and a pending request is aborted", async () => {
  const left = new AbortController();
  let given: AbortSignal | null = null;
  const hangs: Channel = {
    deliver: async () => null,
    typing: (_, signal) => {
      given = signal;
      return new Promise(() => undefined);
    },
  };
  const { taskId } = await registry.startTask({ targets: [CHAT] });
  new TypingIndicator({ store: registry.store, channels: new Map([["chat", hangs]]) }).start(
    taskId,
    left.signal,
  );
  await waitFor("it is on its way", () => given !== null);
  left.abort();
  expect(given).toMatchObject({ aborted: true });
});
