import { rename } from "node:fs/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import { expect, test } from "vitest";
import { StateUnusable } from "../../src/errors.js";
import { openSqliteStore } from "../../src/store/sqlite/open.js";
import type { Store } from "../../src/store/store.js";
import { endWithNotification, newTask, taskEvent } from "../support/store/task-samples.js";
import { openTaskRegistry } from "../support/task-registry.js";

test("a task, its end, its deliveries and operator decisions are synced to disk; a heartbeat need not be", async () => {
  await using registry = await openTaskRegistry();
  const { taskId, version } = await registry.startTask();
  const undelivered = await registry.finishTask();
  const [entry] = await registry.store.claimOutbox({ owner: "a", limit: 9, leaseMs: 9 });
  const at = Date.now();
  const named = newTask({ key: "caller:operator:named" });
  await registry.store.settleOutbox(entry ?? expect.fail("none"), { status: "parent_missing", at });
  const calls: Readonly<Record<string, (store: Store) => Promise<unknown>>> = {
    heartbeat: (store) => store.commitTask(taskId, version, { set: { lastEventAt: 5 } }),
    insertTask: (store) => store.insertTask(named, [taskEvent("created")]),
    // A second writer that finds the record does not continue either: the first sync failed.
    "insertTask again": (store) => store.insertTask(named, [taskEvent("created")]),
    commitTask: (store) => store.commitTask(taskId, version + 1, endWithNotification(taskId)),
    retryOutbox: (store) => store.retryOutbox(undelivered.taskId, taskEvent("retried")),
    claimOutbox: (store) => store.claimOutbox({ owner: "a", limit: 9, leaseMs: 9 }),
  };
  for (const [name, call] of Object.entries(calls)) {
    await using store = await openSqliteStore({ path: registry.path });
    // Only the sync has to find the log: SQLite has it open.
    await rename(`${registry.path}-wal`, `${registry.path}-elsewhere`);
    const error: unknown = await call(store).then(
      () => null,
      (reason: unknown) => reason,
    );
    await rename(`${registry.path}-elsewhere`, `${registry.path}-wal`);
    if (name === "heartbeat") expect(error).toBeNull();
    else expect(error, name).toBeInstanceOf(StateUnusable);
  }
});

test("an entry delayed or leased by the clock of another boot is due", async () => {
  await using registry = await openTaskRegistry();
  const { taskId } = await registry.finishTask();
  const claim = { owner: "b", limit: 9, leaseMs: 60_000 };
  const tampered = (change: string): void => {
    const db = new DatabaseSync(registry.path);
    db.exec(`update task_outbox set ${change}`);
    db.close();
  };
  tampered("due_at = due_at + 86400000");
  expect(await registry.store.nextOutboxDelay()).toBe(0);
  expect(await registry.store.claimOutbox(claim)).toMatchObject([{ taskId, unheard: 0 }]);
  expect(await registry.store.claimOutbox(claim)).toEqual([]);
  tampered("lease_until = lease_until + 86400000");
  expect(await registry.store.claimOutbox(claim)).toMatchObject([{ taskId, unheard: 1 }]);
});
