import { appendFile, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { defaults } from "../../src/defaults.js";
import { rememberingTasks } from "../../src/store/ledger/remembering-tasks.js";
import { TaskLedger } from "../../src/store/ledger/task-ledger.js";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import type { Store } from "../../src/store/store.js";
import { Tasks } from "../../src/tasks/tasks.js";
import type { Finish } from "../../src/tasks/transition.js";
import { TaskRestorer } from "../../src/gateway/work/restore-tasks.js";
import { CHAT } from "./task-samples.js";
import { temporaryDirectory } from "./temporary-directory.js";

let home: string;
let path: string;
beforeEach(async () => {
  const directory = await temporaryDirectory();
  onTestFinished(() => directory[Symbol.asyncDispose]());
  home = directory.path;
  path = join(home, "store.sqlite");
});

const openLedger = (name = "ledger"): Promise<TaskLedger> => TaskLedger.open(join(home, name));
const noted = (store: Store, ledger: TaskLedger): Store =>
  rememberingTasks(store, ledger, (message, cause) => expect.fail(`${message}: ${String(cause)}`));
const finish = (startedAt: number): Finish => ({
  type: "finish",
  at: startedAt,
  status: "succeeded",
  outcome: null,
  summary: "well",
  error: null,
  actor: "",
  startedAt,
});
const work = async (store: Store, ends: boolean): Promise<string> => {
  const tasks = new Tasks({ store });
  const input = { runtime: "external", key: null, text: "work", targets: [CHAT] } as const;
  const { task } = await tasks.create(input);
  if (ends) await tasks.tell(task.taskId, finish(Date.now()));
  return task.taskId;
};
const claim = { owner: "gateway", leaseMs: 60_000, limit: 100 };

test("what is noted is there for the next process, also after half a line", async () => {
  await using store = await openSqliteStore({ path });
  const ledger = await openLedger();
  const copy = noted(store, ledger);
  const open = await work(copy, false);
  const ended = await work(copy, true);
  const before = [ledger.get(open), ledger.get(ended)];
  expect(before[1]?.entries).toMatchObject([{ status: "pending", taskId: ended }]);
  await ledger[Symbol.asyncDispose]();
  await appendFile(join(home, "ledger", "tasks.log"), '{"about":"task","taskId":"ta');
  await using next = await openLedger();
  expect([next.get(open), next.get(ended)]).toEqual(before);
  await work(noted(store, next), true);
  const lines = (await readFile(join(home, "ledger", "tasks.log"), "utf8")).trimEnd().split("\n");
  for (const line of lines) expect(() => JSON.parse(line) as unknown).not.toThrow();
});

test("what is over is kept for a day; what is open or to be delivered, for as long as it is", async () => {
  await using store = await openSqliteStore({ path });
  const ledger = await openLedger();
  const copy = noted(store, ledger);
  const open = await work(copy, false);
  const promised = await work(copy, true);
  const delivered = await work(copy, true);
  const entry = (await copy.claimOutbox(claim)).find(({ taskId }) => taskId === delivered);
  if (entry !== undefined)
    await copy.settleOutbox(entry, { status: "delivered", receipt: null, at: Date.now() });
  await ledger[Symbol.asyncDispose]();
  const log = join(home, "ledger", "tasks.log");
  const old = Date.now() - 2 * defaults.ledgerEndsKeptMs;
  const text = await readFile(log, "utf8");
  await writeFile(log, text.replaceAll(/"(endedAt|settledAt)":\d+/g, `"$1":${old}`));
  await using next = await openLedger();
  expect(next.taskIds().toSorted()).toEqual([open, promised].toSorted());
});

test("the file does not grow with the number of steps", async () => {
  await using store = await openSqliteStore({ path });
  await using ledger = await openLedger();
  const tasks = new Tasks({ store: noted(store, ledger) });
  const { task } = await tasks.create({ runtime: "external", key: null, text: "x".repeat(10_000) });
  await tasks.tell(task.taskId, { type: "start", at: Date.now() });
  const { size } = await stat(join(home, "ledger", "tasks.log"));
  for (let at = 0; at < 50; at += 1)
    await tasks.tell(task.taskId, { type: "progress", at: Date.now(), text: `step ${at}` });
  const { size: after } = await stat(join(home, "ledger", "tasks.log"));
  expect(after - size).toBeLessThan(50 * 1_000);
});

describe("a store that was put back", () => {
  test("does not hand out a message again that was delivered, by whichever gateway", async () => {
    await using store = await openSqliteStore({ path });
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

    await new Tasks({ store: copy }).tell(taskId, finish(begun.createdAt));
    const [entry] = await copy.claimOutbox(claim);
    expect(entry?.attempts).toBe(1);
    if (entry !== undefined)
      await copy.settleOutbox(entry, { status: "delivered", receipt: "r", at: Date.now() });

    const restorer = new TaskRestorer({
      ...{ store: after, ledger: first, directory: join(home, "first"), instanceId: "in_first" },
      problem: () => {},
    });
    expect(await restorer.look()).toBe(1);
    expect(await restorer.look()).toBe(0);
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
    await using store = await openSqliteStore({ path });
    await using ledger = await openLedger();
    const task = { runtime: "external", key: "caller:operator:one", text: "work" } as const;
    const first = await new Tasks({ store: noted(store, ledger) }).create(task);
    await using other = await openSqliteStore({ path: join(home, "other.sqlite") });
    const second = await new Tasks({ store: other }).create(task);
    const refused: string[] = [];
    const restorer = new TaskRestorer({
      ...{ store: other, ledger, directory: join(home, "ledger"), instanceId: "in_one" },
      problem: ({ message }) => refused.push(message),
    });
    expect(await restorer.look()).toBe(0);
    expect(refused).toMatchObject([expect.stringContaining("another task has its key") as string]);
    expect(await other.getTask(first.task.taskId)).toBeNull();
    expect(await other.getTask(second.task.taskId)).toMatchObject({ status: "queued" });
  });
});
