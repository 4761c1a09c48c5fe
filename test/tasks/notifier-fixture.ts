import { afterEach, beforeEach } from "vitest";
import { type Clock, systemClock } from "../../src/async/clock.js";
import { deferred, type Deferred } from "../../src/async/deferred.js";
import type { Notification, NotificationTarget, OutboxEntry } from "../../src/model/outbox.js";
import type { TaskRecord } from "../../src/model/task.js";
import type { TaskStore } from "../../src/store/tasks/contract.js";
import type { Deliver, DeliveryReceipt } from "../../src/tasks/delivery-attempt.js";
import { Notifier, type NotifierLimits } from "../../src/tasks/notifier.js";
import { openTaskRegistry, type TaskRegistry } from "../support/task-registry.js";
import { waitFor } from "../support/wait-for.js";

export const ok: DeliveryReceipt = { status: "delivered", receipt: "r" };
const quick: Partial<NotifierLimits> = { retryMs: 10, maxRetryMs: 40, totalMs: 100_000, pollMs: 50 };

/** Each delivery waits for its answer. */
export class SlowReceiver {
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

export let registry: TaskRegistry;
const running: Notifier[] = [];

/** Gives each test of a file a registry of its own, and stops its notifiers at the end. */
export function useTaskRegistry(): void {
  beforeEach(async () => {
    registry = await openTaskRegistry();
  });
  afterEach(async () => {
    await Promise.all(running.splice(0).map((each) => each.stop()));
    await registry[Symbol.asyncDispose]();
  });
}

export function notifier(
  deliver: Deliver,
  limits: Partial<NotifierLimits> = {},
  more: { readonly store?: Partial<TaskStore>; readonly owner?: string; readonly clock?: Clock } = {},
): Notifier {
  const { owner = "a", store = {}, clock = systemClock } = more;
  const made = new Notifier({
    ...{ deliver, owner, clock, limits: { ...quick, ...limits } },
    store: {
      claimOutbox: (claim) => registry.store.claimOutbox(claim),
      settleOutbox: (entry, result) => registry.store.settleOutbox(entry, result),
      nextOutboxDelay: () => registry.store.nextOutboxDelay(),
      releaseOutbox: (name) => registry.store.releaseOutbox(name),
      ...store,
    },
  });
  running.push(made);
  made.start();
  return made;
}

/** Accepts every notification and adds it to the list. */
export const acceptInto =
  (got: Notification[]): Deliver =>
  async (_, notification) => {
    got.push(notification);
    return ok;
  };
export const deliveredCount = async (): Promise<number> =>
  (await registry.store.listOutbox({ statuses: ["delivered"] })).length;

export const entryOf = async ({ taskId }: TaskRecord): Promise<OutboxEntry | undefined> =>
  (await registry.store.listOutbox({ taskId }))[0];
export const deliveryOf = async ({ taskId }: TaskRecord): Promise<unknown> =>
  (await registry.store.getTask(taskId))?.delivery;
export const becomes = async (task: TaskRecord, delivery: string): Promise<void> => {
  await waitFor(`the task is ${delivery}`, async () => (await deliveryOf(task)) === delivery);
};
