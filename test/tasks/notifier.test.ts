import { afterEach, beforeEach, expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/async/clock.js";
import { deferred, type Deferred } from "../../src/async/deferred.js";
import { defaults } from "../../src/defaults.js";
import type { Notification, NotificationTarget, OutboxEntry } from "../../src/model/outbox.js";
import type { TaskRecord } from "../../src/model/task.js";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import type { TaskStore } from "../../src/store/tasks/store.js";
import { type Deliver, DeliveryFailed, type DeliveryReceipt } from "../../src/tasks/delivery.js";
import { Notifier, type NotifierLimits } from "../../src/tasks/notifier.js";
import { CHAT, PARENT } from "../support/store/task-samples.js";
import { openTaskRegistry, SUCCEEDED_FINISH, type TaskRegistry } from "../support/task-registry.js";
import { waitFor } from "../support/wait-for.js";

const ok: DeliveryReceipt = { status: "delivered", receipt: "r" };
const quick: Partial<NotifierLimits> = { retryMs: 10, maxRetryMs: 40, totalMs: 100_000, pollMs: 50 };

/** Each delivery waits for its answer. */
class SlowReceiver {
  readonly calls: {
    readonly target: NotificationTarget;
    readonly notification: Notification;
    readonly signal: AbortSignal;
    readonly answer: Deferred<DeliveryReceipt>;
  }[] = [];

  readonly deliver: Deliver = (target, notification, signal) => {
    const answer = deferred<DeliveryReceipt>();
    this.calls.push({ target, notification, signal, answer });
    return answer.promise;
  };
}

let registry: TaskRegistry;
const running: Notifier[] = [];
beforeEach(async () => {
  registry = await openTaskRegistry();
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((each) => each.stop()));
  await registry[Symbol.asyncDispose]();
});

function notifier(
  deliver: Deliver,
  limits: Partial<NotifierLimits> = {},
  more: { readonly store?: Partial<TaskStore>; readonly owner?: string; readonly clock?: Clock } = {},
): Notifier {
  const { owner = "a", store = {}, clock = systemClock } = more;
  const base: Pick<TaskStore, "claimOutbox" | "settleOutbox" | "nextOutboxDelay" | "releaseOutbox"> = {
    claimOutbox: (claim) => registry.store.claimOutbox(claim),
    settleOutbox: (entry, result) => registry.store.settleOutbox(entry, result),
    nextOutboxDelay: () => registry.store.nextOutboxDelay(),
    releaseOutbox: (name) => registry.store.releaseOutbox(name),
  };
  const made = new Notifier({
    store: { ...base, ...store },
    deliver,
    owner,
    clock,
    limits: { ...quick, ...limits },
  });
  running.push(made);
  made.start();
  return made;
}

const entryOf = async ({ taskId }: TaskRecord): Promise<OutboxEntry | undefined> =>
  (await registry.store.listOutbox({ taskId }))[0];
const deliveryOf = async ({ taskId }: TaskRecord): Promise<unknown> =>
  (await registry.store.getTask(taskId))?.delivery;
const becomes = async (task: TaskRecord, delivery: string): Promise<void> => {
  await expect.poll(() => deliveryOf(task), { timeout: 15_000 }).toBe(delivery);
};

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
  await expect.poll(async () => (await entryOf(task))?.error, { timeout: 15_000 }).toBe("busy very");
  expect(await deliveryOf(task)).toBe("pending");
  seen.resolve();
  await becomes(task, "failed");
  expect(new Set(ids)).toEqual(new Set([`task-terminal:${task.taskId}`]));
  expect(ids).toHaveLength(3);
  expect(await entryOf(task)).toMatchObject({ status: "failed", error: "refused", attempts: 3 });
  // Nothing of a task changes by that.
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
  await expect
    .poll(async () => (await entryOf(task))?.error, { timeout: 15_000 })
    .toContain("no answer within 50 ms");
  expect(receiver.calls[0]?.signal.aborted).toBe(true);
  await waitFor("it is tried again", () => receiver.calls.length > 1);
  receiver.calls[1]?.answer.resolve(ok);
  await becomes(task, "delivered");
  // The first comes late, and changes nothing.
  receiver.calls[0]?.answer.resolve({ status: "parent_missing" });
  expect(await deliveryOf(task)).toBe("delivered");
});

test("concurrent attempts are bounded, and a slow one does not block others", async () => {
  const receiver = new SlowReceiver();
  const tasks: TaskRecord[] = [];
  for (let n = 0; n < 7; n += 1) tasks.push(await registry.finishTask());
  notifier(receiver.deliver, { concurrency: 3 });
  await waitFor("three are under way", () => receiver.calls.length === 3);
  for (let n = 1; n < 7; n += 1) {
    receiver.calls[n]?.answer.resolve(ok);
    if (n >= 5) continue;
    await waitFor("another one", () => receiver.calls.length === 3 + n);
    expect(receiver.calls.length).toBe(3 + n);
  }
  await expect
    .poll(async () => (await registry.store.listOutbox({ statuses: ["delivered"] })).length, {
      timeout: 15_000,
    })
    .toBe(6);
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
      concurrency: 4,
      attemptMs: 400,
      slowMs: 200,
      retryMs: 600_000,
      maxRetryMs: 600_000,
      totalMs: 10_000_000,
    },
  );
  await waitFor("it is seen to be slow, and has half of the places", () => hanging.length > 4);
  expect(hanging.filter(({ aborted }) => !aborted).length).toBeLessThanOrEqual(2);
  const other = await registry.finishTask();
  sender.wake();
  await becomes(other, "delivered");
  expect(hanging.length).toBeLessThan(many);
});

test("two notifiers on one store send each entry once", async () => {
  await using second = await openSqliteStore({ path: registry.path });
  const got: string[] = [];
  for (let n = 0; n < 40; n += 1) await registry.finishTask();
  const deliver: Deliver = async (_, { id }) => {
    got.push(id);
    await Promise.resolve();
    return ok;
  };
  notifier(deliver, { concurrency: 4 });
  notifier(
    deliver,
    { concurrency: 4 },
    {
      owner: "b",
      store: {
        claimOutbox: (claim) => second.claimOutbox(claim),
        settleOutbox: (entry, result) => second.settleOutbox(entry, result),
      },
    },
  );
  await expect
    .poll(async () => (await registry.store.listOutbox({ statuses: ["delivered"] })).length, {
      timeout: 15_000,
    })
    .toBe(40);
  expect(got).toHaveLength(40);
  expect(new Set(got).size).toBe(40);
});

test("a change is sent before the end or not at all", async () => {
  const receiver = new SlowReceiver();
  const sender = notifier(receiver.deliver);
  const task = await registry.startTask({ policy: "state_changes" });
  sender.wake();
  await waitFor("the start is being told", () => receiver.calls.length === 1);
  await registry.tasks.apply(task.taskId, { type: "progress", at: Date.now(), text: "half" });
  await registry.tasks.apply(task.taskId, { ...SUCCEEDED_FINISH, at: Date.now() });
  sender.wake();
  // Another message overtakes them meanwhile, so it had its chance.
  const other = await registry.finishTask();
  sender.wake();
  await waitFor("the other is being told", () => receiver.calls.length === 2);
  receiver.calls[1]?.answer.resolve(ok);
  await becomes(other, "delivered");
  expect(receiver.calls).toHaveLength(2);
  receiver.calls[0]?.answer.resolve(ok);
  await waitFor("the end is being told", () => receiver.calls.length === 3);
  receiver.calls[2]?.answer.resolve(ok);
  await becomes(task, "delivered");
  expect(receiver.calls.map(({ notification }) => notification.kind)).toEqual([
    "state",
    "terminal",
    "terminal",
  ]);
});

test("entries of an earlier notifier of the same name are sent at once and marked as repeats", async () => {
  const task = await registry.finishTask();
  await registry.store.claimOutbox({ owner: "a", limit: 9, leaseMs: 600_000 });
  const got: Notification[] = [];
  notifier(async (_, notification) => {
    got.push(notification);
    return ok;
  });
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
  const sender = notifier(async (_, notification) => {
    got.push(notification);
    return ok;
  });
  await becomes(task, "failed");
  expect(got).toEqual([]);
  expect((await entryOf(task))?.error).toMatch(/^20 attempts ended without a result/);
  await registry.store.retryOutbox(task.taskId, { type: "retried", at: 1, data: {} });
  sender.wake();
  await becomes(task, "delivered");
  expect(got).toMatchObject([{ repeat: true }]);
});

test.for([
  ["whoever", "now"],
  // A host that sleeps stops its monotonic clock.
  ["whose host", "wall"],
] as const)("%s slept through its lease sends nothing: another may be at it", async ([, clock]) => {
  const got: string[] = [];
  let sleptMs = 0;
  const sender = notifier(
    async (_, { taskId }) => {
      got.push(taskId);
      return ok;
    },
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
  await expect.poll(async () => (await entryOf(first))?.attempts, { timeout: 15_000 }).toBe(1);
  const second = await registry.finishTask();
  sender.wake();
  await becomes(second, "delivered");
  expect(got).toEqual([second.taskId]);
  // The next notifier marks it as a repeat, because the suspended one may still send it.
  await registry.store.releaseOutbox("a");
  await becomes(first, "delivered");
  expect(got).toEqual([second.taskId, first.taskId]);
});

test("stop waits for running attempts, starts none, and gives up on silent receivers", async () => {
  const receiver = new SlowReceiver();
  const first = await registry.finishTask();
  const sender = notifier(receiver.deliver);
  await waitFor("it is being sent", () => receiver.calls.length === 1);
  const second = await registry.finishTask({ targets: [CHAT] });
  let stopped = false;
  const stopping = sender.stop().then(() => (stopped = true));
  await registry.store.nextOutboxDelay();
  expect(stopped).toBe(false);
  receiver.calls[0]?.answer.resolve(ok);
  await stopping;
  expect(await deliveryOf(first)).toBe("delivered");
  expect(await deliveryOf(second)).toBe("pending");
  const deaf = notifier(receiver.deliver);
  await waitFor("it is being sent", () => receiver.calls.length === 2);
  await deaf.stop();
  expect(await entryOf(second)).toMatchObject({
    status: "pending",
    leaseOwner: null,
    error: "the gateway was stopped",
    // It may have had it.
    unheard: 1,
  });
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
  let sent = 0;
  notifier(
    async () => {
      sent += 1;
      return ok;
    },
    {},
    {
      store: {
        releaseOutbox: sometimes((owner) => registry.store.releaseOutbox(owner)),
        claimOutbox: sometimes((claim) => registry.store.claimOutbox(claim)),
        settleOutbox: sometimes((entry, result) => registry.store.settleOutbox(entry, result)),
      },
    },
  );
  await becomes(task, "delivered");
  expect(sent).toBe(1);
});
