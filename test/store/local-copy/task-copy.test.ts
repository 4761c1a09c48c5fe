import { appendFile, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { withTaskCopy } from "../../../src/store/local-copy/with-task-copy.js";
import { TaskCopy } from "../../../src/store/local-copy/task-copy.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import type { Store } from "../../../src/store/store.js";
import { Tasks } from "../../../src/tasks/tasks.js";
import type { TaskFinish } from "../../../src/tasks/transition.js";
import { TaskRestorer } from "../../../src/gateway/background/task-restorer.js";
import { outboxKey } from "../../../src/model/outbox.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { CHAT, newNotification } from "../../support/store/task-samples.js";
import { temporaryDirectory } from "../../support/temporary-directory.js";

let home: string;
let store: Store;
beforeEach(async () => {
  const directory = await temporaryDirectory();
  home = directory.path;
  store = await openSqliteStore({ path: join(home, "store.sqlite") });
  onTestFinished(async () => {
    await store[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });
});

const openLedger = (name = "ledger"): Promise<TaskCopy> => TaskCopy.open(join(home, name));
const noted = (of: Store, localCopy: TaskCopy): Store =>
  withTaskCopy(of, localCopy, (message, cause) => expect.fail(`${message}: ${String(cause)}`));
const finish = (startedAt: number): TaskFinish => ({
  type: "finish",
  at: startedAt,
  status: "succeeded",
  outcome: null,
  summary: "well",
  error: null,
  actor: "",
  startedAt,
});
const work = async (of: Store, ends: boolean): Promise<string> => {
  const tasks = new Tasks({ store: of });
  const input = { runtime: "external", key: null, text: "work", targets: [CHAT] } as const;
  const { task } = await tasks.create(input);
  if (ends) await tasks.apply(task.taskId, finish(Date.now()));
  return task.taskId;
};
const restorerOf = (of: Store, localCopy: TaskCopy): TaskRestorer =>
  new TaskRestorer({ store: of, localCopy, directory: home, instanceId: "in_one", onProblem: () => {} });
const claim = { owner: "gateway", leaseMs: 60_000, limit: 100 };
const deliverAll = async (on: Store): Promise<void> => {
  for (const entry of await on.claimOutbox(claim))
    await on.settleOutbox(entry, { status: "delivered", receipt: "r", at: Date.now() });
};

test("the next process reads every record, also after an incomplete line", async () => {
  const localCopy = await openLedger();
  const copy = noted(store, localCopy);
  const open = await work(copy, false);
  const ended = await work(copy, true);
  const before = [localCopy.get(open), localCopy.get(ended)];
  expect(before[1]?.entries).toMatchObject([{ status: "pending", taskId: ended }]);
  await localCopy[Symbol.asyncDispose]();
  await appendFile(join(home, "ledger", "tasks.log"), '{"about":"task","taskId":"ta');
  await using next = await openLedger();
  expect([next.get(open), next.get(ended)]).toEqual(before);
  await work(noted(store, next), true);
  const lines = (await readFile(join(home, "ledger", "tasks.log"), "utf8")).trimEnd().split("\n");
  for (const line of lines) expect(() => JSON.parse(line) as unknown).not.toThrow();
});

test("ended tasks are kept for a day; open tasks and undelivered messages for as long as needed", async () => {
  const localCopy = await openLedger();
  const copy = noted(store, localCopy);
  const open = await work(copy, false);
  const promised = await work(copy, true);
  const delivered = await work(copy, true);
  const entry = (await copy.claimOutbox(claim)).find(({ taskId }) => taskId === delivered);
  if (entry !== undefined)
    await copy.settleOutbox(entry, { status: "delivered", receipt: null, at: Date.now() });
  await localCopy[Symbol.asyncDispose]();
  const log = join(home, "ledger", "tasks.log");
  const old = Date.now() - 2 * defaults.ledgerEndsKeptMs;
  const text = await readFile(log, "utf8");
  await writeFile(log, text.replaceAll(/"(endedAt|settledAt)":\d+/g, `"$1":${old}`));
  await using next = await openLedger();
  expect(next.taskIds().toSorted()).toEqual([open, promised].toSorted());
});

test("the file does not grow with the number of steps", async () => {
  await using localCopy = await openLedger();
  const tasks = new Tasks({ store: noted(store, localCopy) });
  const { task } = await tasks.create({ runtime: "external", key: null, text: "x".repeat(10_000) });
  await tasks.apply(task.taskId, { type: "start", at: Date.now() });
  const { size } = await stat(join(home, "ledger", "tasks.log"));
  for (let at = 0; at < 50; at += 1)
    await tasks.apply(task.taskId, { type: "progress", at: Date.now(), text: `step ${at}` });
  const { size: after } = await stat(join(home, "ledger", "tasks.log"));
  expect(after - size).toBeLessThan(50 * 1_000);
});

test("a record whose first line is damaged is omitted, and the others are restored", async () => {
  const localCopy = await openLedger();
  const copy = noted(store, localCopy);
  const damaged = await work(copy, true);
  const whole = await work(copy, true);
  await deliverAll(copy);
  await localCopy[Symbol.asyncDispose]();
  const log = join(home, "ledger", "tasks.log");
  const lines = (await readFile(log, "utf8")).split("\n");
  const isWhole = (line: string): boolean => /"(createdAt|notification)":/.test(line);
  const kept = lines.map((line) => (line.includes(damaged) && isWhole(line) ? line.slice(0, 40) : line));
  await writeFile(log, kept.join("\n"));
  await using next = await openLedger();
  expect(next.taskIds()).toEqual([whole]);
  await using empty = await openSqliteStore({ path: join(home, "empty.sqlite") });
  expect(await restorerOf(empty, next).restoreLost()).toBe(1);
  expect(await empty.getTask(whole)).toMatchObject({ status: "succeeded" });
});

test.skipIf(whyNoMounts !== null)(
  "a record that a full disk refused is in the file after the next write that succeeds",
  async () => {
    await using disk = mountSmallDisk("1m");
    const directory = join(disk.path, "ledger");
    const localCopy = await TaskCopy.open(directory);
    const failures: string[] = [];
    const copy = withTaskCopy(store, localCopy, (message) => failures.push(message));
    const before = await work(copy, true);
    const filler = join(disk.path, "filler");
    // Room is left for a part of a line.
    await writeFile(filler, Buffer.alloc(1024 * 1024)).catch(() => undefined);
    const tasks = new Tasks({ store: copy });
    for (let at = 0; at < 20; at += 1)
      await tasks.create({ runtime: "external", key: null, text: "x".repeat(1_000), targets: [CHAT] });
    const during = await work(copy, true);
    expect(failures).not.toEqual([]);
    await rm(filler);
    const after = await work(copy, true);
    const told = [before, during, after].map((taskId) => localCopy.get(taskId));
    await localCopy[Symbol.asyncDispose]();
    await using next = await TaskCopy.open(directory);
    expect([before, during, after].map((taskId) => next.get(taskId))).toEqual(told);
  },
);

test("settled messages about changes do not accumulate", async () => {
  await using localCopy = await openLedger();
  const copy = noted(store, localCopy);
  const tasks = new Tasks({ store: copy });
  const input = { runtime: "external", key: null, text: "work", targets: [CHAT] } as const;
  const { task } = await tasks.create(input);
  const { taskId } = task;
  for (let at = 0; at < 100; at += 1) {
    const { notification } = newNotification(taskId, "state", { seq: at });
    const entry = { key: outboxKey(notification.id, CHAT), target: CHAT, createdAt: at, notification };
    await localCopy.record({ taskId, entries: [{ ...entry, taskId, status: "delivered" }] }, false);
  }
  const kept = localCopy.get(taskId)?.entries ?? [];
  expect(kept.length).toBeLessThanOrEqual(2 * defaults.ledgerTaskEventsKept);
  expect(kept.at(-1)?.createdAt).toBe(99);
});

describe("a write of another gateway is copied", () => {
  const inAMinute = (): void => {
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + defaults.taskSweepMs });
    onTestFinished(() => void vi.useRealTimers());
  };

  test("an end and a delivery, and neither is restored when the task is deleted for its age", async () => {
    await using first = await openLedger("first");
    await using second = await openLedger("second");
    const [here, there] = [noted(store, first), noted(store, second)];
    const restorer = restorerOf(store, first);
    const ended = await work(here, false);
    const told = await work(here, true);
    await new Tasks({ store: there }).apply(ended, finish(Date.now()));
    await deliverAll(there);
    expect(await restorer.restoreLost()).toBe(0);
    inAMinute();
    expect(await restorer.restoreLost()).toBe(0);
    for (const taskId of [ended, told])
      expect(first.get(taskId)).toMatchObject({
        task: { status: "succeeded" },
        entries: [{ status: "delivered" }],
      });
    expect(first.get(ended)?.events.map(({ type }) => type)).toEqual(["created", "started", "ended"]);
    expect(first.unfinishedTaskIds()).toEqual([]);
  });

  test("a task that another gateway has deleted is not restored, and its message is not sent again", async () => {
    await using first = await openLedger("first");
    await using second = await openLedger("second");
    const [here, there] = [noted(store, first), noted(store, second)];
    const restorer = restorerOf(store, first);
    expect(await restorer.restoreLost()).toBe(0);
    const old = await work(here, true);
    const newer = await work(here, false);
    await deliverAll(there);
    expect(await there.deleteTasks([old])).toBe(1);
    inAMinute();
    expect(await restorer.restoreLost()).toBe(0);
    expect(first.taskIds()).toEqual([newer]);
    // As after a restart of this gateway, or of the server.
    expect(await restorerOf(store, first).restoreLost()).toBe(0);
    expect(await store.getTask(old)).toBeNull();
  });
});

describe("a store that was rolled back", () => {
  test("has the end again that another gateway wrote, in whichever order the two restore it", async () => {
    await using first = await openLedger("first");
    await using second = await openLedger("second");
    const taskId = await work(noted(store, first), false);
    await new Tasks({ store: noted(store, second) }).apply(taskId, finish(Date.now()));
    for (const [name, order] of Object.entries({
      "one.sqlite": [first, second],
      "two.sqlite": [second, first],
    })) {
      await using empty = await openSqliteStore({ path: join(home, name) });
      for (const localCopy of order) await restorerOf(empty, localCopy).restoreLost();
      expect(await empty.getTask(taskId), name).toMatchObject({ status: "succeeded", delivery: "pending" });
      expect(
        (await empty.listTaskEvents(taskId)).map(({ type }) => type),
        name,
      ).toContain("ended");
      expect(await empty.listOutbox({ taskId }), name).toMatchObject([{ status: "pending" }]);
    }
  });

  test("does not send a message of this gateway that another has delivered", async () => {
    await using first = await openLedger("first");
    await using second = await openLedger("second");
    const taskId = await work(noted(store, first), true);
    const there = noted(store, second);
    await deliverAll(there);
    await using empty = await openSqliteStore({ path: join(home, "empty.sqlite") });
    const [one, other] = [restorerOf(empty, first), restorerOf(empty, second)];
    // In this order: the gateway that delivered it does not know the task.
    expect(await other.restoreLost()).toBe(0);
    expect(await one.restoreLost()).toBe(1);
    expect(await noted(empty, first).claimOutbox(claim)).toEqual([]);
    expect(await other.restoreLost()).toBe(1);
    expect(await empty.listOutbox({ taskId })).toMatchObject([{ status: "delivered", receipt: "r" }]);
    expect(await empty.getTask(taskId)).toMatchObject({ status: "succeeded", delivery: "delivered" });
  });

  test("does not hand out a message again that was delivered, by whichever gateway", async () => {
    await using first = await openLedger("first");
    const copy = noted(store, first);
    const taskId = await work(copy, false);
    const {
      seq: _seq,
      version: _version,
      ...begun
    } = (await store.getTask(taskId)) ?? expect.fail("no task");
    // As a backup from here on has it.
    await using after = await openSqliteStore({ path: join(home, "backup.sqlite") });
    await after.insertTask(begun, [{ type: "created", at: begun.createdAt, data: {} }]);

    await new Tasks({ store: copy }).apply(taskId, finish(begun.createdAt));
    await deliverAll(copy);

    const restorer = restorerOf(after, first);
    expect(await restorer.restoreLost()).toBe(1);
    expect(await restorer.restoreLost()).toBe(0);
    expect(await after.getTask(taskId)).toMatchObject({ status: "succeeded", delivery: "delivered" });
    expect(await after.listOutbox({ taskId })).toMatchObject([{ status: "delivered", receipt: "r" }]);
    expect((await after.listTaskEvents(taskId)).map(({ type }) => type)).toEqual([
      "created",
      "started",
      "ended",
      "restored",
    ]);
    expect(await noted(after, first).claimOutbox(claim)).toEqual([]);
  });

  test("keeps an end that it knows, and does not take a key from another task", async () => {
    await using localCopy = await openLedger();
    const task = { runtime: "external", key: "caller:operator:one", text: "work" } as const;
    const first = await new Tasks({ store: noted(store, localCopy) }).create(task);
    await using other = await openSqliteStore({ path: join(home, "other.sqlite") });
    const second = await new Tasks({ store: other }).create(task);
    const refused: string[] = [];
    const restorer = new TaskRestorer({
      ...{ store: other, localCopy, directory: join(home, "ledger"), instanceId: "in_one" },
      onProblem: ({ message }) => refused.push(message),
    });
    expect(await restorer.restoreLost()).toBe(0);
    expect(refused).toMatchObject([expect.stringContaining("another task has its key") as string]);
    expect(await other.getTask(first.task.taskId)).toBeNull();
    expect(await other.getTask(second.task.taskId)).toMatchObject({ status: "queued" });
  });
});
