import { describe, expect, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import type { Store } from "../../src/store/store.js";
import { outboxKey, type OutboxEntry, type NotificationTarget } from "../../src/model/outbox.js";
import type { TestSessionDatabase } from "./session-contract.js";
import { AT } from "../support/store/session-samples.js";
import {
  CHAT,
  endWithNotification,
  newTask,
  newNotification,
  PARENT,
  changeWithNotification,
  taskEvent,
} from "../support/store/task-samples.js";
import { twoSupervisors } from "./two-supervisors.js";

const leaseMs = 60_000;
const delivered = { status: "delivered", receipt: "r1", at: AT + 5 } as const;
const again = { status: "pending", error: "busy", spentMs: 1.5, inMs: 0 } as const;
const dead = { status: "failed", error: "gone", spentMs: 9, at: AT + 5 } as const;

/** What every store promises of messages on their way, whatever the database. */
export function outboxContract(name: string, createDatabase: () => Promise<TestSessionDatabase>): void {
  describe(`${name} store of messages about tasks`, () => {
    let store: Store;
    let other: Store;
    twoSupervisors(createDatabase, (opened) => {
      ({ store, other } = opened);
    });

    async function begun(): Promise<string> {
      const { task } = await store.insertTask(newTask({ policy: "state_changes" }), [taskEvent("created")]);
      return task.taskId;
    }
    async function ended(targets: readonly NotificationTarget[] = [PARENT]): Promise<string> {
      const taskId = await begun();
      await store.commitTask(taskId, 1, endWithNotification(taskId, targets));
      return taskId;
    }
    const claim = (on = store, owner = "a", limit = 9): Promise<readonly OutboxEntry[]> =>
      on.claimOutbox({ owner, limit, leaseMs });
    const one = async (on = store, owner = "a"): Promise<OutboxEntry> =>
      (await claim(on, owner))[0] ?? expect.fail("nothing to claim");
    const deliveryOf = async (taskId: string): Promise<unknown> => (await other.getTask(taskId))?.delivery;

    test("a message is claimed by one sender, with its attempt counted, until the lease ends", async () => {
      const taskId = await ended();
      const entry = await one();
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
      expect(await store.nextOutboxDelay()).toBeGreaterThan(leaseMs / 2);
      // Whoever sent it has been killed, and another has its name now.
      expect(await other.releaseOutbox("a")).toBe(1);
      expect(await claim(other, "b")).toMatchObject([{ attempts: 2, unheard: 1, leaseOwner: "b" }]);
      // The first wakes up late.
      expect(await store.settleOutbox(entry, dead)).toBe(false);
      expect(await deliveryOf(taskId)).toBe("pending");
    });

    test("another sender claims a message whose lease has ended", async () => {
      await ended();
      await store.claimOutbox({ owner: "a", limit: 1, leaseMs: 1 });
      await expect.poll(() => claim(other, "b"), { timeout: 15_000 }).toMatchObject([{ unheard: 1 }]);
    });

    test("the result of a late attempt does not settle the next attempt, also of the same sender", async () => {
      await ended();
      const [late] = await store.claimOutbox({ owner: "a", limit: 1, leaseMs: 1 });
      let next: readonly OutboxEntry[] = [];
      await expect.poll(async () => (next = await claim()), { timeout: 15_000 }).toHaveLength(1);
      expect(await store.settleOutbox(late ?? expect.fail("none"), dead)).toBe(false);
      expect(await store.settleOutbox(next[0] ?? expect.fail("none"), delivered)).toBe(true);
    });

    test("a restarted sender releases its own messages only, and cannot settle its earlier attempts", async () => {
      await ended();
      await ended();
      const [mine] = await claim(store, "a", 1);
      const [theirs] = await claim(other, "b", 1);
      expect(await store.releaseOutbox("a")).toBe(1);
      expect(await store.settleOutbox(mine ?? expect.fail("none"), delivered)).toBe(false);
      expect(await claim()).toMatchObject([{ key: mine?.key, unheard: 1 }]);
      expect(await other.settleOutbox(theirs ?? expect.fail("none"), delivered)).toBe(true);
    });

    test("concurrent claims get distinct messages", async () => {
      for (let n = 0; n < 20; n += 1) await ended();
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
      await ended([CHAT, { ...CHAT, address: null }, elsewhere, PARENT]);
      const except = [CHAT.channel, "c%"];
      const claimed = await store.claimOutbox({ owner: "a", limit: 9, leaseMs, except });
      expect(claimed.map(({ target }) => target)).toHaveLength(2);
      expect(claimed.map(({ target }) => target)).toEqual(expect.arrayContaining([elsewhere, PARENT]));
      expect(await store.nextOutboxDelay(except)).toBeGreaterThan(leaseMs / 2);
      expect(await store.nextOutboxDelay()).toBe(0);
      expect(await claim(other, "b")).toHaveLength(2);
    });

    test("a failed attempt is repeated when it is due; a delivered message is not", async () => {
      const taskId = await ended();
      expect(await store.settleOutbox(await one(), { ...again, inMs: 60_000 })).toBe(true);
      expect(await store.listOutbox({ taskId })).toMatchObject([
        { status: "pending", attempts: 1, unheard: 0, spentMs: 2, error: "busy", leaseOwner: null },
      ]);
      expect(await claim()).toEqual([]);
      const dueIn = (await other.nextOutboxDelay()) ?? 0;
      expect(dueIn).toBeGreaterThan(30_000);
      expect(dueIn).toBeLessThanOrEqual(60_000);
      await ended();
      expect(await store.nextOutboxDelay()).toBe(0);
      const entry = await one();
      expect(await store.settleOutbox(entry, delivered)).toBe(true);
      expect(await store.settleOutbox(entry, delivered)).toBe(false);
      expect(await deliveryOf(entry.taskId)).toBe("delivered");
      expect(await store.listOutbox({ statuses: ["delivered"] })).toMatchObject([
        { receipt: "r1", settledAt: AT + 5, leaseOwner: null, error: null },
      ]);
    });

    test("a task is delivered when all targets have its message; a message in a session only when it was read", async () => {
      const taskId = await ended([PARENT, CHAT]);
      const entries = await claim();
      const of = (target: NotificationTarget): OutboxEntry =>
        entries.find(({ key }) => key === outboxKey(`task-terminal:${taskId}`, target)) ??
        expect.fail("none");
      await store.settleOutbox(of(CHAT), delivered);
      expect(await deliveryOf(taskId)).toBe("pending");
      await store.settleOutbox(of(PARENT), { status: "session_queued", at: AT + 6 });
      expect(await deliveryOf(taskId)).toBe("session_queued");
      expect(await claim()).toEqual([]);
      expect(await other.acknowledgeOutbox(of(PARENT).key, taskId, AT + 7)).toBe(true);
      expect(await deliveryOf(taskId)).toBe("delivered");
      expect(await other.acknowledgeOutbox(of(PARENT).key, taskId, AT + 8)).toBe(false);
      expect(await other.acknowledgeOutbox("none", "none", AT + 8)).toBe(false);
    });

    test("open tasks and undelivered messages are counted by status", async () => {
      expect(await store.countOpenTasks()).toEqual(new Map());
      expect(await store.countUndelivered()).toEqual(new Map());
      await begun();
      await store.insertTask(newTask({ status: "running", startedAt: AT }), [taskEvent("created")]);
      await ended([PARENT, CHAT]);
      await ended();
      expect(await other.countUndelivered()).toEqual(new Map([["pending", 3]]));
      const [first, second, third] = await claim();
      if (first === undefined || second === undefined || third === undefined) return expect.fail("none");
      await store.settleOutbox(first, { status: "session_queued", at: AT });
      await store.settleOutbox(second, dead);
      await store.settleOutbox(third, delivered);
      await ended();
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
      const taskId = await ended([PARENT, CHAT]);
      for (const entry of await claim())
        await store.settleOutbox(entry, { status: "session_queued", at: AT });
      const waiting = { target: PARENT, statuses: ["session_queued"] } as const;
      const [entry, ...others] = await other.listOutbox(waiting);
      expect(others).toEqual([]);
      const key = entry?.key ?? "";
      expect(key).toBe(outboxKey(`task-terminal:${taskId}`, PARENT));
      expect(await other.acknowledgeOutbox(key, taskId, AT + 7, "parent_missing")).toBe(true);
      expect(await deliveryOf(taskId)).toBe("parent_missing");
      expect(await other.listOutbox(waiting)).toEqual([]);
    });

    test("two targets that settle concurrently give the right delivery of the task", async () => {
      for (let n = 0; n < 5; n += 1) {
        const taskId = await ended([PARENT, CHAT]);
        const [first, second] = await claim();
        if (first === undefined || second === undefined) return expect.fail("not two");
        await Promise.all([store.settleOutbox(first, delivered), other.settleOutbox(second, delivered)]);
        expect(await deliveryOf(taskId)).toBe("delivered");
      }
    });

    test("that it may have arrived is kept, also when an operator has it tried again, and counted once", async () => {
      const taskId = await ended();
      for (const result of [again, { ...again, unheard: true }, { ...again, unheard: true }, again, dead])
        await store.settleOutbox(await one(), result);
      await store.retryOutbox(taskId, taskEvent("retried"));
      expect(await one()).toMatchObject({ attempts: 6, unheard: 1 });
      const givenUp = await ended();
      await store.settleOutbox(await one(), { ...dead, unheard: true });
      await store.retryOutbox(givenUp, taskEvent("retried"));
      expect(await one()).toMatchObject({ taskId: givenUp, unheard: 1 });
    });

    test("a failed message stays until an operator retries or dismisses it", async () => {
      const taskId = await ended([PARENT, CHAT]);
      const [first, second] = await claim();
      if (first === undefined || second === undefined) return expect.fail("not two");
      await store.settleOutbox(first, dead);
      await store.settleOutbox(second, { status: "parent_missing", at: AT + 5 });
      expect(await deliveryOf(taskId)).toBe("failed");
      expect(await claim()).toEqual([]);
      expect(await store.nextOutboxDelay()).toBeNull();
      expect(await store.retryOutbox(taskId, taskEvent("retried", { actor: "ada" }))).toBe(2);
      expect(await store.retryOutbox(taskId, taskEvent("retried"))).toBe(0);
      expect(await deliveryOf(taskId)).toBe("pending");
      const retried = await claim(other, "b");
      expect(retried).toMatchObject([
        { attempts: 2, spentMs: 0 },
        { attempts: 2, spentMs: 0 },
      ]);
      for (const entry of retried) await other.settleOutbox(entry, dead);
      expect(await other.dismissOutbox(taskId, taskEvent("dismissed", { actor: "ada" }))).toBe(2);
      expect(await other.dismissOutbox("none", taskEvent("dismissed"))).toBe(0);
      expect(await deliveryOf(taskId)).toBe("not_applicable");
      expect((await store.listTaskEvents(taskId)).map(({ type }) => type).slice(-2)).toEqual([
        "retried",
        "dismissed",
      ]);
      expect(await store.listOutbox({ taskId, statuses: ["dismissed"] })).toHaveLength(2);
    });

    test("a newer change replaces an unsent message about an earlier one", async () => {
      const taskId = await begun();
      await store.commitTask(taskId, 1, changeWithNotification(taskId, { seq: 2, inMs: 60_000 }));
      await store.commitTask(taskId, 2, changeWithNotification(taskId, { seq: 3 }));
      expect((await claim()).map(({ notification }) => notification.id)).toEqual([`task-state:${taskId}:3`]);
      expect(await store.listOutbox({ taskId })).toHaveLength(1);
      expect(await deliveryOf(taskId)).toBe("pending");
    });

    test("it takes its time as well: who was to hear at once does; one that was tried before has lost it", async () => {
      const taskId = await begun();
      await store.commitTask(taskId, 1, changeWithNotification(taskId, { seq: 2 }));
      await store.commitTask(taskId, 2, changeWithNotification(taskId, { seq: 3, inMs: 60_000 }));
      expect(await store.nextOutboxDelay()).toBe(0);
      const entry = await one();
      expect(entry.notification.id).toBe(`task-state:${taskId}:3`);
      await store.settleOutbox(entry, again);
      await store.commitTask(taskId, 3, changeWithNotification(taskId, { seq: 4, inMs: 60_000 }));
      expect(await claim()).toEqual([]);
      expect(await store.nextOutboxDelay()).toBeGreaterThan(30_000);
    });

    test("the end replaces unsent changes, and waits for the one that is being sent", async () => {
      const taskId = await begun();
      await store.commitTask(taskId, 1, changeWithNotification(taskId, { seq: 2 }));
      const state = await one();
      await store.commitTask(taskId, 2, changeWithNotification(taskId, { seq: 3 }));
      await store.commitTask(taskId, 3, endWithNotification(taskId));
      expect(await store.listOutbox({ taskId })).toHaveLength(2);
      expect(await claim(other, "b")).toEqual([]);
      // It has failed: nobody wants to hear of it any more.
      expect(await store.settleOutbox(state, again)).toBe(true);
      expect(await claim(other, "b")).toMatchObject([{ notification: { kind: "terminal" } }]);
      expect(await store.listOutbox({ taskId })).toHaveLength(1);
    });

    test("a change whose sender was killed is not told beside or after the end", async () => {
      const taskId = await begun();
      await store.commitTask(taskId, 1, changeWithNotification(taskId));
      await one();
      await store.commitTask(taskId, 2, endWithNotification(taskId));
      await store.releaseOutbox("a");
      const [only, ...more] = await claim(other, "b");
      expect(only).toMatchObject({ notification: { kind: "terminal" } });
      expect(more).toEqual([]);
      await other.settleOutbox(only ?? expect.fail("none"), delivered);
      expect(await store.listOutbox({ taskId })).toHaveLength(1);
      expect(await store.nextOutboxDelay()).toBeNull();
    });

    test("a change whose sender was killed is not told again to whoever wants to hear of none any more", async () => {
      const taskId = await begun();
      await store.commitTask(taskId, 1, changeWithNotification(taskId));
      await one();
      await store.commitTask(taskId, 2, { set: { policy: "silent" } });
      await store.releaseOutbox("a");
      expect(await claim(other, "b")).toEqual([]);
      expect(await store.listOutbox({ taskId })).toEqual([]);
    });

    for (const [how, over] of [
      ["and its lease is over", async () => undefined],
      ["and another has its name", () => store.releaseOutbox("a")],
    ] as const)
      test(`a change whose sender was killed does not wait for ever beside an end that nobody is told of, ${how}`, async () => {
        const taskId = await begun();
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
        await expect.poll(waiting, { timeout: 15_000 }).toBe(0);
      });

    test("attempts of which nobody knows what came are counted, however they were left; tried anew, it is still a repeat", async () => {
      const taskId = await ended();
      await store.claimOutbox({ owner: "a", limit: 9, leaseMs: 1 });
      await expect.poll(() => claim(other, "b"), { timeout: 15_000 }).toMatchObject([{ unheard: 1 }]);
      await other.releaseOutbox("b");
      const entry = await one();
      expect(entry).toMatchObject({ attempts: 3, unheard: 2 });
      await store.settleOutbox(entry, again);
      const last = await one();
      expect(last).toMatchObject({ attempts: 4, unheard: 2 });
      await store.settleOutbox(last, dead);
      await store.retryOutbox(taskId, taskEvent("retried"));
      expect(await one()).toMatchObject({ attempts: 5, unheard: 1 });
    });

    /** A change that is told at another time than those before it. */
    const changed = (taskId: string, seq: number, at = AT + seq) => {
      const { notification, ...rest } = newNotification(taskId, "state", { seq });
      return {
        set: { noticedAt: AT },
        notices: [{ ...rest, notification: { ...notification, at } }],
      };
    };

    test("a change that could not be told is not told after a newer one", async () => {
      const taskId = await begun();
      await store.commitTask(taskId, 1, changed(taskId, 2));
      const first = await one();
      await store.commitTask(taskId, 2, changed(taskId, 3));
      const second = await one();
      await store.settleOutbox(second, delivered);
      await store.settleOutbox(first, again);
      expect(await claim()).toEqual([]);
      expect(await store.listOutbox({ taskId })).toMatchObject([{ key: second.key, status: "delivered" }]);
    });

    test("which of two changes is the newer does not depend on the clock that it was noted by", async () => {
      const taskId = await begun();
      await store.commitTask(taskId, 1, changed(taskId, 9));
      await store.settleOutbox(await one(), delivered);
      await store.commitTask(taskId, 2, changed(taskId, 10, AT + 5));
      const older = await one();
      expect(older.notification.id).toBe(`task-state:${taskId}:10`);
      await store.commitTask(taskId, 3, changed(taskId, 11, AT + 5));
      await store.settleOutbox(older, again);
      expect((await claim()).map(({ notification }) => notification.id)).toEqual([`task-state:${taskId}:11`]);
    });

    test("a change whose sender was killed is not told beside a newer one", async () => {
      const taskId = await begun();
      await store.commitTask(taskId, 1, changed(taskId, 2));
      await one();
      await store.commitTask(taskId, 2, changed(taskId, 3));
      await store.releaseOutbox("a");
      const [only, ...more] = await claim(other, "b");
      expect(more).toEqual([]);
      expect(only?.notification.id).toBe(`task-state:${taskId}:3`);
      await other.settleOutbox(only ?? expect.fail("none"), delivered);
      expect(await store.listOutbox({ taskId })).toHaveLength(1);
    });

    test("an obsolete message is not retried", async () => {
      const taskId = await begun();
      await store.commitTask(taskId, 1, changed(taskId, 2));
      await store.settleOutbox(await one(), dead);
      await store.commitTask(taskId, 2, endWithNotification(taskId));
      await store.settleOutbox(await one(), delivered);
      expect(await store.retryOutbox(taskId, taskEvent("retried"))).toBe(0);
      expect(await store.listOutbox({ taskId, statuses: ["pending"] })).toEqual([]);
      expect(await store.dismissOutbox(taskId, taskEvent("dismissed"))).toBe(1);
    });

    test("the newest delivered messages about changes are kept, and all pending ones", async () => {
      const taskId = await begun();
      for (let n = 1; n <= defaults.taskEventsKept + 5; n += 1) {
        await store.commitTask(taskId, n, changed(taskId, n));
        await store.settleOutbox(await one(), n % 2 === 0 ? delivered : dead);
      }
      const kept = await other.listOutbox({ taskId });
      expect(kept).toHaveLength(defaults.taskEventsKept);
      expect(kept.map(({ createdAt }) => createdAt - AT)).toEqual(kept.map((_, index) => index + 6));
      await store.commitTask(taskId, defaults.taskEventsKept + 6, endWithNotification(taskId));
      expect(await claim()).toMatchObject([{ notification: { kind: "terminal" } }]);
    });
  });
}
