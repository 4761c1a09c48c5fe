import { expect, test } from "vitest";
import { systemClock } from "../../src/async/clock.js";
import { defaults } from "../../src/defaults.js";
import type { Notification } from "../../src/model/outbox.js";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import type { TaskStore } from "../../src/store/tasks/contract.js";
import { CHAT } from "../support/store/task-samples.js";
import { waitFor } from "../support/wait-for.js";
import {
  acceptInto,
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

test("two notifiers on one store send each entry once", async () => {
  await using second = await openSqliteStore({ path: registry.path });
  const got: Notification[] = [];
  for (let n = 0; n < 40; n += 1) await registry.finishTask();
  const store: Partial<TaskStore> = {
    claimOutbox: (claim) => second.claimOutbox(claim),
    settleOutbox: (entry, result) => second.settleOutbox(entry, result),
  };
  notifier(acceptInto(got), { concurrency: 4 });
  notifier(acceptInto(got), { concurrency: 4 }, { owner: "b", store });
  await waitFor("all are delivered", async () => (await deliveredCount()) === 40);
  expect(got).toHaveLength(40);
  expect(new Set(got.map(({ id }) => id)).size).toBe(40);
});

test("entries of an earlier notifier of the same name are sent at once and marked as repeats", async () => {
  const task = await registry.finishTask();
  await registry.store.claimOutbox({ owner: "a", limit: 9, leaseMs: 600_000 });
  const got: Notification[] = [];
  notifier(acceptInto(got));
  await becomes(task, "delivered");
  expect(got).toMatchObject([{ id: `task-terminal:${task.taskId}`, repeat: true }]);
});

test("an entry whose attempts never have a result fails without being sent, and an operator can retry it", async () => {
  const task = await registry.finishTask();
  for (let kills = 0; kills < defaults.deliveryUnheardMost; kills += 1) {
    expect(await registry.store.claimOutbox({ owner: "a", limit: 9, leaseMs: 600_000 })).toHaveLength(1);
    expect(await deliveryOf(task)).toBe("pending");
    await registry.store.releaseOutbox("a");
  }
  const got: Notification[] = [];
  const sender = notifier(acceptInto(got));
  await becomes(task, "failed");
  expect(got).toEqual([]);
  expect((await entryOf(task))?.error).toMatch(/^20 attempts ended without a result/);
  await registry.store.retryOutbox(task.taskId, { type: "retried", at: 1, data: {} });
  sender.wake();
  await becomes(task, "delivered");
  expect(got).toMatchObject([{ repeat: true }]);
});

test.each([
  ["process", "now"],
  // While a host sleeps, its monotonic clock stops.
  ["host", "wall"],
] as const)("a notifier whose %s slept through its lease sends nothing", async (_, clock) => {
  const got: Notification[] = [];
  let sleptMs = 0;
  const sender = notifier(
    acceptInto(got),
    { leaseMs: 600_000, attemptMs: 60_000 },
    {
      clock: { ...systemClock, [clock]: () => systemClock[clock]() + sleptMs },
      store: {
        claimOutbox: async (claim) => {
          const claimed = await registry.store.claimOutbox(claim);
          if (claimed.length > 0 && sleptMs === 0) sleptMs = 595_000;
          return claimed;
        },
      },
    },
  );
  const first = await registry.finishTask();
  sender.wake();
  await waitFor("the first is claimed", async () => (await entryOf(first))?.attempts === 1);
  const second = await registry.finishTask();
  sender.wake();
  await becomes(second, "delivered");
  expect(got.map(({ taskId }) => taskId)).toEqual([second.taskId]);
  // The next notifier marks it as a repeat, because the suspended one may still send it.
  await registry.store.releaseOutbox("a");
  await becomes(first, "delivered");
  expect(got.map(({ taskId }) => taskId)).toEqual([second.taskId, first.taskId]);
});

test("stop waits for running attempts, starts none, and gives up on silent receivers", async () => {
  const receiver = new SlowReceiver();
  const first = await registry.finishTask();
  const sender = notifier(receiver.deliver);
  await waitFor("an attempt runs", () => receiver.calls.length === 1);
  const second = await registry.finishTask({ targets: [CHAT] });
  let stopped = false;
  const stopping = sender.stop().then(() => (stopped = true));
  await registry.store.nextOutboxDelay();
  expect(stopped).toBe(false);
  receiver.calls[0]?.answer.resolve(ok);
  await stopping;
  expect(await deliveryOf(first)).toBe("delivered");
  expect(await deliveryOf(second)).toBe("pending");
  const next = notifier(receiver.deliver);
  await waitFor("an attempt runs", () => receiver.calls.length === 2);
  await next.stop();
  expect(await entryOf(second)).toMatchObject({
    status: "pending",
    leaseOwner: null,
    error: "the gateway was stopped",
    // The receiver may have the notification.
    unheard: 1,
  });
});

test("while nothing waits, a poll asks once and claims nothing; what another gateway adds is sent at the next", async () => {
  const got: Notification[] = [];
  const asked = { claims: 0, delays: 0 };
  notifier(
    acceptInto(got),
    {},
    {
      store: {
        claimOutbox: (claim) => {
          asked.claims += 1;
          return registry.store.claimOutbox(claim);
        },
        nextOutboxDelay: () => {
          asked.delays += 1;
          return registry.store.nextOutboxDelay();
        },
      },
    },
  );
  await waitFor("several polls", () => asked.delays > 4);
  expect(asked.claims).toBe(1);
  const task = await registry.finishTask();
  await becomes(task, "delivered");
  expect(got.map(({ taskId }) => taskId)).toEqual([task.taskId]);
});

test("a failed store operation is retried, and the result of a delivery is kept meanwhile", async () => {
  /** Fails for the first two calls. */
  const sometimes = <Args extends unknown[], Answer>(call: (...args: Args) => Promise<Answer>) => {
    let away = 2;
    return async (...args: Args): Promise<Answer> => {
      if (away-- > 0) throw new Error("away");
      return call(...args);
    };
  };
  const task = await registry.finishTask();
  await registry.store.claimOutbox({ owner: "a", limit: 9, leaseMs: 600_000 });
  const got: Notification[] = [];
  const store: Partial<TaskStore> = {
    releaseOutbox: sometimes((owner) => registry.store.releaseOutbox(owner)),
    claimOutbox: sometimes((claim) => registry.store.claimOutbox(claim)),
    settleOutbox: sometimes((entry, result) => registry.store.settleOutbox(entry, result)),
  };
  notifier(acceptInto(got), {}, { store });
  await becomes(task, "delivered");
  expect(got).toHaveLength(1);
});
