import { describe, expect, test } from "vitest";
import { outboxKey, type OutboxEntry, type NotificationTarget } from "../../src/model/outbox.js";
import type { Store } from "../../src/store/store.js";
import { AT } from "../support/store/session-samples.js";
import {
  again,
  begun,
  CHAT,
  claim,
  CLAIM_MS,
  dead,
  delivered,
  deliveryOf,
  ended,
  newNotification,
  newTask,
  one,
  PARENT,
  taskEvent,
} from "../support/store/task-samples.js";
import { type TestDatabase, twoSupervisors } from "../support/store/test-database.js";

/** The contract of every store for messages that are being sent, whatever the database. */
export function outboxContract(name: string, createDatabase: () => Promise<TestDatabase<Store>>): void {
  describe(`${name} store of messages about tasks`, () => {
    let store: Store;
    let other: Store;
    twoSupervisors(createDatabase, (opened) => {
      ({ store, other } = opened);
    });

    test("a message is claimed by one sender, with its attempt counted, until the lease ends", async () => {
      const taskId = await ended(store);
      const entry = await one(store);
      expect(entry).toMatchObject({
        key: outboxKey(`task-terminal:${taskId}`, PARENT),
        taskId,
        target: PARENT,
        notification: newNotification(taskId, "terminal").notification,
        status: "pending",
        attempts: 1,
        unheard: 0,
        leaseOwner: "a",
      });
      expect(await claim(other, "b")).toEqual([]);
      expect(await claim(store, "a")).toEqual([]);
      expect(await store.nextOutboxDelay()).toBeGreaterThan(CLAIM_MS / 2);
      // The sender was killed, and another sender has its name.
      expect(await other.releaseOutbox("a")).toBe(1);
      expect(await claim(other, "b")).toMatchObject([{ attempts: 2, unheard: 1, leaseOwner: "b" }]);
      // The first wakes up late.
      expect(await store.settleOutbox(entry, dead)).toBe(false);
      expect(await deliveryOf(other, taskId)).toBe("pending");
    });

    test("another sender claims a message whose lease has ended", async () => {
      await ended(store);
      await store.claimOutbox({ owner: "a", limit: 1, leaseMs: 1 });
      await expect.poll(() => claim(other, "b")).toMatchObject([{ unheard: 1 }]);
    });

    test("the result of a late attempt does not settle the next attempt, also of the same sender", async () => {
      await ended(store);
      const [late] = await store.claimOutbox({ owner: "a", limit: 1, leaseMs: 1 });
      let next: readonly OutboxEntry[] = [];
      await expect.poll(async () => (next = await claim(store))).toHaveLength(1);
      expect(await store.settleOutbox(late ?? expect.fail("none"), dead)).toBe(false);
      expect(await store.settleOutbox(next[0] ?? expect.fail("none"), delivered)).toBe(true);
    });

    test("a restarted sender releases its own messages only, and cannot settle its earlier attempts", async () => {
      await ended(store);
      await ended(store);
      const [mine] = await claim(store, "a", 1);
      const [theirs] = await claim(other, "b", 1);
      expect(await store.releaseOutbox("a")).toBe(1);
      expect(await store.settleOutbox(mine ?? expect.fail("none"), delivered)).toBe(false);
      expect(await claim(store)).toMatchObject([{ key: mine?.key, unheard: 1 }]);
      expect(await other.settleOutbox(theirs ?? expect.fail("none"), delivered)).toBe(true);
    });

    test("concurrent claims get distinct messages", async () => {
      for (let n = 0; n < 20; n += 1) await ended(store);
      const claimed = await Promise.all(
        Array.from({ length: 10 }, (_, n) => claim(n % 2 === 0 ? store : other, `o${n}`, 4)),
      );
      const keys = claimed.flat().map(({ key }) => key);
      expect(new Set(keys).size).toBe(keys.length);
      const rest = await claim(store, "last", 99);
      expect(keys.length + rest.length).toBe(20);
    });

    test("messages for excluded channels are not claimed, whatever their address", async () => {
      const elsewhere: NotificationTarget = { ...CHAT, channel: "chat_2" };
      await ended(store, [CHAT, { ...CHAT, address: null }, elsewhere, PARENT]);
      const except = [CHAT.channel, "c%"];
      const claimed = await store.claimOutbox({ owner: "a", limit: 9, leaseMs: CLAIM_MS, except });
      expect(claimed.map(({ target }) => target)).toHaveLength(2);
      expect(claimed.map(({ target }) => target)).toEqual(expect.arrayContaining([elsewhere, PARENT]));
      expect(await store.nextOutboxDelay(except)).toBeGreaterThan(CLAIM_MS / 2);
      expect(await store.nextOutboxDelay()).toBe(0);
      expect(await claim(other, "b")).toHaveLength(2);
    });

    test("a failed attempt is repeated when it is due; a delivered message is not", async () => {
      const taskId = await ended(store);
      expect(await store.settleOutbox(await one(store), { ...again, inMs: 60_000 })).toBe(true);
      expect(await store.listOutbox({ taskId })).toMatchObject([
        { status: "pending", attempts: 1, unheard: 0, spentMs: 2, error: "busy", leaseOwner: null },
      ]);
      expect(await claim(store)).toEqual([]);
      const dueIn = (await other.nextOutboxDelay()) ?? 0;
      expect(dueIn).toBeGreaterThan(30_000);
      expect(dueIn).toBeLessThanOrEqual(60_000);
      await ended(store);
      expect(await store.nextOutboxDelay()).toBe(0);
      const entry = await one(store);
      expect(await store.settleOutbox(entry, delivered)).toBe(true);
      expect(await store.settleOutbox(entry, delivered)).toBe(false);
      expect(await deliveryOf(other, entry.taskId)).toBe("delivered");
      expect(await store.listOutbox({ statuses: ["delivered"] })).toMatchObject([
        { receipt: "r1", settledAt: AT + 5, leaseOwner: null, error: null },
      ]);
    });

    test("a task is delivered when all targets have its message; a message in a session only when it was read", async () => {
      const taskId = await ended(store, [PARENT, CHAT]);
      const entries = await claim(store);
      const of = (target: NotificationTarget): OutboxEntry =>
        entries.find(({ key }) => key === outboxKey(`task-terminal:${taskId}`, target)) ??
        expect.fail("none");
      await store.settleOutbox(of(CHAT), delivered);
      expect(await deliveryOf(other, taskId)).toBe("pending");
      await store.settleOutbox(of(PARENT), { status: "session_queued", at: AT + 6 });
      expect(await deliveryOf(other, taskId)).toBe("session_queued");
      expect(await claim(store)).toEqual([]);
      expect(await other.acknowledgeOutbox(of(PARENT).key, taskId, AT + 7)).toBe(true);
      expect(await deliveryOf(other, taskId)).toBe("delivered");
      expect(await other.acknowledgeOutbox(of(PARENT).key, taskId, AT + 8)).toBe(false);
      expect(await other.acknowledgeOutbox("none", "none", AT + 8)).toBe(false);
    });

    test("open tasks and undelivered messages are counted by status", async () => {
      expect(await store.countOpenTasks()).toEqual(new Map());
      expect(await store.countUndelivered()).toEqual(new Map());
      await begun(store);
      await store.insertTask(newTask({ status: "running", startedAt: AT }), [taskEvent("created")]);
      await ended(store, [PARENT, CHAT]);
      await ended(store);
      expect(await other.countUndelivered()).toEqual(new Map([["pending", 3]]));
      const [first, second, third] = await claim(store);
      if (first === undefined || second === undefined || third === undefined) return expect.fail("none");
      await store.settleOutbox(first, { status: "session_queued", at: AT });
      await store.settleOutbox(second, dead);
      await store.settleOutbox(third, delivered);
      await ended(store);
      expect(await other.countUndelivered()).toEqual(
        new Map([
          ["pending", 1],
          ["session_queued", 1],
          ["failed", 1],
        ]),
      );
      expect(await other.countOpenTasks()).toEqual(
        new Map([
          ["queued", 1],
          ["running", 1],
        ]),
      );
    });

    test("a message that waits in a closed session has a missing parent, and is found by its session", async () => {
      const taskId = await ended(store, [PARENT, CHAT]);
      for (const entry of await claim(store))
        await store.settleOutbox(entry, { status: "session_queued", at: AT });
      const waiting = { target: PARENT, statuses: ["session_queued"] } as const;
      const [entry, ...others] = await other.listOutbox(waiting);
      expect(others).toEqual([]);
      const key = entry?.key ?? "";
      expect(key).toBe(outboxKey(`task-terminal:${taskId}`, PARENT));
      expect(await other.acknowledgeOutbox(key, taskId, AT + 7, "parent_missing")).toBe(true);
      expect(await deliveryOf(other, taskId)).toBe("parent_missing");
      expect(await other.listOutbox(waiting)).toEqual([]);
    });

    test("two targets that settle concurrently give the right delivery of the task", async () => {
      for (let n = 0; n < 5; n += 1) {
        const taskId = await ended(store, [PARENT, CHAT]);
        const [first, second] = await claim(store);
        if (first === undefined || second === undefined) return expect.fail("not two");
        await Promise.all([store.settleOutbox(first, delivered), other.settleOutbox(second, delivered)]);
        expect(await deliveryOf(other, taskId)).toBe("delivered");
      }
    });

    test("a message that may have arrived stays marked so, also after a retry, and is counted once", async () => {
      const taskId = await ended(store);
      for (const result of [again, { ...again, unheard: true }, { ...again, unheard: true }, again, dead])
        await store.settleOutbox(await one(store), result);
      await store.retryOutbox(taskId, taskEvent("retried"));
      expect(await one(store)).toMatchObject({ attempts: 6, unheard: 1 });
      const givenUp = await ended(store);
      await store.settleOutbox(await one(store), { ...dead, unheard: true });
      await store.retryOutbox(givenUp, taskEvent("retried"));
      expect(await one(store)).toMatchObject({ taskId: givenUp, unheard: 1 });
    });

    test("a message that waits for its next attempt can be sent at once, or dismissed", async () => {
      const taskId = await ended(store);
      const later = { ...again, inMs: 600_000 };
      await store.settleOutbox(await one(store), later);
      expect(await claim(store)).toEqual([]);
      expect(await other.retryOutbox(taskId, taskEvent("retried"))).toBe(1);
      await store.settleOutbox(await one(store), later);
      expect(await other.dismissOutbox(taskId, taskEvent("dismissed"))).toBe(1);
      expect(await claim(store)).toEqual([]);
      expect(await deliveryOf(other, taskId)).toBe("not_applicable");
    });

    test("a failed message stays until an operator retries or dismisses it", async () => {
      const taskId = await ended(store, [PARENT, CHAT]);
      const [first, second] = await claim(store);
      if (first === undefined || second === undefined) return expect.fail("not two");
      await store.settleOutbox(first, dead);
      await store.settleOutbox(second, { status: "parent_missing", at: AT + 5 });
      expect(await deliveryOf(other, taskId)).toBe("failed");
      expect(await claim(store)).toEqual([]);
      expect(await store.nextOutboxDelay()).toBeNull();
      expect(await store.retryOutbox(taskId, taskEvent("retried", { actor: "ada" }))).toBe(2);
      expect(await deliveryOf(other, taskId)).toBe("pending");
      const retried = await claim(other, "b");
      // Messages that are being sent are left to their sender.
      expect(await store.retryOutbox(taskId, taskEvent("retried"))).toBe(0);
      expect(await store.dismissOutbox(taskId, taskEvent("dismissed"))).toBe(0);
      expect(retried).toMatchObject([
        { attempts: 2, spentMs: 0 },
        { attempts: 2, spentMs: 0 },
      ]);
      for (const entry of retried) await other.settleOutbox(entry, dead);
      expect(await other.dismissOutbox(taskId, taskEvent("dismissed", { actor: "ada" }))).toBe(2);
      expect(await other.dismissOutbox("none", taskEvent("dismissed"))).toBe(0);
      expect(await deliveryOf(other, taskId)).toBe("not_applicable");
      expect((await store.listTaskEvents(taskId)).map(({ type }) => type).slice(-2)).toEqual([
        "retried",
        "dismissed",
      ]);
      expect(await store.listOutbox({ taskId, statuses: ["dismissed"] })).toHaveLength(2);
    });

    test("attempts with an unknown result are counted, and a retry after them is still marked as a repetition", async () => {
      const taskId = await ended(store);
      await store.claimOutbox({ owner: "a", limit: 9, leaseMs: 1 });
      await expect.poll(() => claim(other, "b")).toMatchObject([{ unheard: 1 }]);
      await other.releaseOutbox("b");
      const entry = await one(store);
      expect(entry).toMatchObject({ attempts: 3, unheard: 2 });
      await store.settleOutbox(entry, again);
      const last = await one(store);
      expect(last).toMatchObject({ attempts: 4, unheard: 2 });
      await store.settleOutbox(last, dead);
      await store.retryOutbox(taskId, taskEvent("retried"));
      expect(await one(store)).toMatchObject({ attempts: 5, unheard: 1 });
    });
  });
}
