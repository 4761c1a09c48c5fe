import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import type { Store } from "../../src/store/store.js";
import { AT } from "../support/store/session-samples.js";
import {
  again,
  begun,
  changeWithNotification,
  claim,
  dead,
  delivered,
  deliveryOf,
  endWithNotification,
  newNotification,
  one,
  taskEvent,
} from "../support/store/task-samples.js";
import { type TestDatabase, twoSupervisors } from "../support/store/test-database.js";

/** A change with a message of another time. */
const changed = (taskId: string, seq: number, at = AT + seq) => {
  const { notification, ...rest } = newNotification(taskId, "state", { seq });
  return {
    set: { noticedAt: AT },
    notices: [{ ...rest, notification: { ...notification, at } }],
  };
};

/** The contract of every store for messages about changes of a task, which newer messages replace. */
export function outboxChangesContract(
  name: string,
  createDatabase: () => Promise<TestDatabase<Store>>,
): void {
  describe(`${name} store of messages about changes`, () => {
    let store: Store;
    let other: Store;
    twoSupervisors(createDatabase, (opened) => {
      ({ store, other } = opened);
    });

    test("a newer change replaces an unsent message about an earlier one", async () => {
      const taskId = await begun(store);
      await store.commitTask(taskId, 1, changeWithNotification(taskId, { seq: 2, inMs: 60_000 }));
      await store.commitTask(taskId, 2, changeWithNotification(taskId, { seq: 3 }));
      expect((await claim(store)).map(({ notification }) => notification.id)).toEqual([
        `task-state:${taskId}:3`,
      ]);
      expect(await store.listOutbox({ taskId })).toHaveLength(1);
      expect(await deliveryOf(other, taskId)).toBe("pending");
    });

    test("a replacing message has the earlier due time of the two, unless the replaced one was tried", async () => {
      const taskId = await begun(store);
      await store.commitTask(taskId, 1, changeWithNotification(taskId, { seq: 2 }));
      await store.commitTask(taskId, 2, changeWithNotification(taskId, { seq: 3, inMs: 60_000 }));
      expect(await store.nextOutboxDelay()).toBe(0);
      const entry = await one(store);
      expect(entry.notification.id).toBe(`task-state:${taskId}:3`);
      await store.settleOutbox(entry, again);
      await store.commitTask(taskId, 3, changeWithNotification(taskId, { seq: 4, inMs: 60_000 }));
      expect(await claim(store)).toEqual([]);
      expect(await store.nextOutboxDelay()).toBeGreaterThan(30_000);
    });

    test("the end replaces unsent changes, and waits for the one that is being sent", async () => {
      const taskId = await begun(store);
      await store.commitTask(taskId, 1, changeWithNotification(taskId, { seq: 2 }));
      const state = await one(store);
      await store.commitTask(taskId, 2, changeWithNotification(taskId, { seq: 3 }));
      await store.commitTask(taskId, 3, endWithNotification(taskId));
      expect(await store.listOutbox({ taskId })).toHaveLength(2);
      expect(await claim(other, "b")).toEqual([]);
      // The failed message about the change is obsolete.
      expect(await store.settleOutbox(state, again)).toBe(true);
      expect(await claim(other, "b")).toMatchObject([{ notification: { kind: "terminal" } }]);
      expect(await store.listOutbox({ taskId })).toHaveLength(1);
    });

    test("a message about a change whose sender was killed is not sent beside or after the end", async () => {
      const taskId = await begun(store);
      await store.commitTask(taskId, 1, changeWithNotification(taskId));
      await one(store);
      await store.commitTask(taskId, 2, endWithNotification(taskId));
      await store.releaseOutbox("a");
      const [only, ...more] = await claim(other, "b");
      expect(only).toMatchObject({ notification: { kind: "terminal" } });
      expect(more).toEqual([]);
      await other.settleOutbox(only ?? expect.fail("none"), delivered);
      expect(await store.listOutbox({ taskId })).toHaveLength(1);
      expect(await store.nextOutboxDelay()).toBeNull();
    });

    test("a message about a change whose sender was killed is not sent after the policy excludes changes", async () => {
      const taskId = await begun(store);
      await store.commitTask(taskId, 1, changeWithNotification(taskId));
      await one(store);
      await store.commitTask(taskId, 2, { set: { policy: "silent" } });
      await store.releaseOutbox("a");
      expect(await claim(other, "b")).toEqual([]);
      expect(await store.listOutbox({ taskId })).toEqual([]);
    });

    for (const [how, over] of [
      ["when its lease has ended", async () => undefined],
      ["when another sender has its name", () => store.releaseOutbox("a")],
    ] as const)
      test(`a message about a change whose sender was killed is deleted after an end without messages, ${how}`, async () => {
        const taskId = await begun(store);
        await store.commitTask(taskId, 1, changeWithNotification(taskId));
        await store.claimOutbox({ owner: "a", limit: 9, leaseMs: 5 });
        await store.commitTask(taskId, 2, { set: { policy: "silent" } });
        const { set = {} } = endWithNotification(taskId);
        await store.commitTask(taskId, 3, { set: { ...set, delivery: "not_applicable" } });
        await over();
        const waiting = async (): Promise<number> => {
          expect(await claim(other, "b")).toEqual([]);
          return (await other.listOutbox({ taskId })).length;
        };
        await expect.poll(waiting).toBe(0);
      });

    test("a message about a change that failed is not sent after a newer one", async () => {
      const taskId = await begun(store);
      await store.commitTask(taskId, 1, changed(taskId, 2));
      const first = await one(store);
      await store.commitTask(taskId, 2, changed(taskId, 3));
      const second = await one(store);
      await store.settleOutbox(second, delivered);
      await store.settleOutbox(first, again);
      expect(await claim(store)).toEqual([]);
      expect(await store.listOutbox({ taskId })).toMatchObject([{ key: second.key, status: "delivered" }]);
    });

    test("which of two changes is newer does not depend on the wall clock", async () => {
      const taskId = await begun(store);
      await store.commitTask(taskId, 1, changed(taskId, 9));
      await store.settleOutbox(await one(store), delivered);
      await store.commitTask(taskId, 2, changed(taskId, 10, AT + 5));
      const older = await one(store);
      expect(older.notification.id).toBe(`task-state:${taskId}:10`);
      await store.commitTask(taskId, 3, changed(taskId, 11, AT + 5));
      await store.settleOutbox(older, again);
      expect((await claim(store)).map(({ notification }) => notification.id)).toEqual([
        `task-state:${taskId}:11`,
      ]);
    });

    test("a message about a change whose sender was killed is not sent beside a newer one", async () => {
      const taskId = await begun(store);
      await store.commitTask(taskId, 1, changed(taskId, 2));
      await one(store);
      await store.commitTask(taskId, 2, changed(taskId, 3));
      await store.releaseOutbox("a");
      const [only, ...more] = await claim(other, "b");
      expect(more).toEqual([]);
      expect(only?.notification.id).toBe(`task-state:${taskId}:3`);
      await other.settleOutbox(only ?? expect.fail("none"), delivered);
      expect(await store.listOutbox({ taskId })).toHaveLength(1);
    });

    test("an obsolete message is not retried", async () => {
      const taskId = await begun(store);
      await store.commitTask(taskId, 1, changed(taskId, 2));
      await store.settleOutbox(await one(store), dead);
      await store.commitTask(taskId, 2, endWithNotification(taskId));
      await store.settleOutbox(await one(store), delivered);
      expect(await store.retryOutbox(taskId, taskEvent("retried"))).toBe(0);
      expect(await store.listOutbox({ taskId, statuses: ["pending"] })).toEqual([]);
      expect(await store.dismissOutbox(taskId, taskEvent("dismissed"))).toBe(1);
    });

    test("the newest delivered messages about changes are kept, and all pending ones", async () => {
      const taskId = await begun(store);
      for (let n = 1; n <= defaults.taskEventsKept + 5; n += 1) {
        await store.commitTask(taskId, n, changed(taskId, n));
        await store.settleOutbox(await one(store), n % 2 === 0 ? delivered : dead);
      }
      const kept = await other.listOutbox({ taskId });
      expect(kept).toHaveLength(defaults.taskEventsKept);
      expect(kept.map(({ createdAt }) => createdAt - AT)).toEqual(kept.map((_, index) => index + 6));
      await store.commitTask(taskId, defaults.taskEventsKept + 6, endWithNotification(taskId));
      expect(await claim(store)).toMatchObject([{ notification: { kind: "terminal" } }]);
    });
  });
}
