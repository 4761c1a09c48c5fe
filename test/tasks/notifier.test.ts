import { expect, test } from "vitest";
import { deferred } from "../../src/async/deferred.js";
import type { TaskRecord } from "../../src/model/task.js";
import { DeliveryFailed, type DeliveryReceipt } from "../../src/tasks/delivery-attempt.js";
import { CHAT, PARENT } from "../support/store/task-samples.js";
import { SUCCEEDED_FINISH } from "../support/task-registry.js";
import { waitFor } from "../support/wait-for.js";
import {
  becomes,
  deliveredCount,
  deliveryOf,
  entryOf,
  notifier,
  ok,
  registry,
  SlowReceiver,
  useTaskRegistry,
} from "./notifier-fixture.js";

useTaskRegistry();

test("waiting entries are sent at start and new ones on wake, once to every target", async () => {
  const got: string[] = [];
  const before = await registry.finishTask({ targets: [PARENT, CHAT] });
  const sender = notifier(
    async ({ kind }, { id }) => {
      got.push(`${id} ${kind}`);
      return ok;
    },
    { pollMs: 600_000 },
  );
  await becomes(before, "delivered");
  const after = await registry.finishTask();
  sender.wake();
  await becomes(after, "delivered");
  expect(got.toSorted()).toEqual(
    [
      `task-terminal:${before.taskId} channel`,
      `task-terminal:${before.taskId} session`,
      `task-terminal:${after.taskId} session`,
    ].toSorted(),
  );
  expect(await entryOf(after)).toMatchObject({ status: "delivered", receipt: "r", attempts: 1 });
});

test("entries of another notifier are found by polling", async () => {
  notifier(async () => ok);
  await becomes(await registry.finishTask(), "delivered");
});

test("an entry in a session's inbox is not delivered, and a missing session is recorded", async () => {
  notifier(async ({ kind }) => ({ status: kind === "session" ? "session_queued" : "parent_missing" }));
  await becomes(await registry.finishTask(), "session_queued");
  await becomes(await registry.finishTask({ targets: [CHAT] }), "parent_missing");
});

test("a failed attempt is retried under the same id with its error, and finally fails", async () => {
  const ids: string[] = [];
  const seen = deferred<void>();
  notifier(async (_, { id, repeat }) => {
    ids.push(id);
    expect(repeat).toBeUndefined();
    if (ids.length === 3) await seen.promise;
    throw ids.length < 3
      ? new Error("busy\x1b[2J\nvery")
      : new DeliveryFailed("refused", { permanent: true });
  });
  const task = await registry.finishTask();
  await waitFor("the error is stored", async () => (await entryOf(task))?.error === "busy very");
  expect(await deliveryOf(task)).toBe("pending");
  seen.resolve();
  await becomes(task, "failed");
  expect(new Set(ids)).toEqual(new Set([`task-terminal:${task.taskId}`]));
  expect(ids).toHaveLength(3);
  expect(await entryOf(task)).toMatchObject({ status: "failed", error: "refused", attempts: 3 });
  expect((await registry.store.getTask(task.taskId))?.status).toBe("succeeded");
});

test("attempts end after the total time, and an operator can restart them", async () => {
  let works = false;
  notifier(
    async () => {
      if (works) return ok;
      throw new Error("away");
    },
    { totalMs: 60 },
  );
  const task = await registry.finishTask();
  await becomes(task, "failed");
  works = true;
  await registry.store.retryOutbox(task.taskId, { type: "retried", at: 1, data: {} });
  await becomes(task, "delivered");
});

test("an attempt without an answer ends at its timeout, also if it ignores the signal", async () => {
  const receiver = new SlowReceiver();
  notifier(receiver.deliver, { attemptMs: 50 });
  const task = await registry.finishTask();
  await waitFor("the error is stored", async () =>
    (await entryOf(task))?.error?.includes("no answer within 50 ms"),
  );
  expect(receiver.calls[0]?.signal.aborted).toBe(true);
  await waitFor("a second attempt", () => receiver.calls.length > 1);
  receiver.calls[1]?.answer.resolve(ok);
  await becomes(task, "delivered");
  // A late answer to the first attempt has no effect.
  receiver.calls[0]?.answer.resolve({ status: "parent_missing" });
  expect(await deliveryOf(task)).toBe("delivered");
});

test("concurrent attempts are bounded, and a slow one does not block others", async () => {
  const receiver = new SlowReceiver();
  const tasks: TaskRecord[] = [];
  for (let n = 0; n < 7; n += 1) tasks.push(await registry.finishTask());
  notifier(receiver.deliver, { concurrency: 3 });
  await waitFor("three attempts run", () => receiver.calls.length === 3);
  for (let n = 1; n < 7; n += 1) {
    receiver.calls[n]?.answer.resolve(ok);
    if (n < 5) await waitFor("the next attempt runs", () => receiver.calls.length === 3 + n);
  }
  await waitFor("six are delivered", async () => (await deliveredCount()) === 6);
  receiver.calls[0]?.answer.resolve(ok);
  for (const task of tasks) await becomes(task, "delivered");
});

test("a channel that hangs blocks others for one attempt at most", async () => {
  const many = 60;
  for (let n = 0; n < many; n += 1) await registry.finishTask({ targets: [{ ...CHAT, address: String(n) }] });
  const hanging: AbortSignal[] = [];
  const sender = notifier(
    async ({ kind }, _, signal) => {
      if (kind === "session") return ok;
      hanging.push(signal);
      return deferred<DeliveryReceipt>().promise;
    },
    {
      ...{ concurrency: 4, attemptMs: 400, slowMs: 200 },
      ...{ retryMs: 600_000, maxRetryMs: 600_000, totalMs: 10_000_000 },
    },
  );
  await waitFor("the channel counts as slow, and has half of the places", () => hanging.length > 4);
  expect(hanging.filter(({ aborted }) => !aborted).length).toBeLessThanOrEqual(2);
  const other = await registry.finishTask();
  sender.wake();
  await becomes(other, "delivered");
  expect(hanging.length).toBeLessThan(many);
});

test("a change is sent before the end or not at all", async () => {
  const receiver = new SlowReceiver();
  const sender = notifier(receiver.deliver);
  const task = await registry.startTask({ policy: "state_changes" });
  sender.wake();
  await waitFor("the start is being sent", () => receiver.calls.length === 1);
  await registry.tasks.apply(task.taskId, { type: "progress", at: Date.now(), text: "half" });
  await registry.tasks.apply(task.taskId, { ...SUCCEEDED_FINISH, at: Date.now() });
  sender.wake();
  // Another notification overtakes them, so they had their chance.
  const other = await registry.finishTask();
  sender.wake();
  await waitFor("the other is being sent", () => receiver.calls.length === 2);
  receiver.calls[1]?.answer.resolve(ok);
  await becomes(other, "delivered");
  expect(receiver.calls).toHaveLength(2);
  receiver.calls[0]?.answer.resolve(ok);
  await waitFor("the end is being sent", () => receiver.calls.length === 3);
  receiver.calls[2]?.answer.resolve(ok);
  await becomes(task, "delivered");
  expect(receiver.calls.map(({ notification }) => notification.kind)).toEqual([
    "state",
    "terminal",
    "terminal",
  ]);
});
