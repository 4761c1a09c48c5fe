import { join, resolve } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Lease } from "../../../src/store/runs/contract.js";
import { migrations } from "../../../src/store/sql/migrations.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { startChild } from "../../support/store/child-process.js";
import { storeUnusable } from "../../support/store/postgres-server.js";
import { LEASE_MS, newRun, newRunEvent, RUNNING } from "../../support/store/run-samples.js";
import { temporaryDirectory, type TemporaryDirectory } from "../../support/temporary-directory.js";

let directory: TemporaryDirectory;
let path: string;
beforeEach(async () => {
  directory = await temporaryDirectory();
  path = join(directory.path, "store.sqlite");
});
afterEach(() => directory[Symbol.asyncDispose]());

/** Another process holds the write lock for this time. */
async function heldFor(ms: number): Promise<AsyncDisposable> {
  const holder = startChild("hold-write-lock", path, String(ms));
  expect(await holder.next()).toBe("locked");
  return holder;
}

/** The longest time that the event loop was blocked since this call. */
function longestStandstill(): () => number {
  let last = performance.now();
  let longest = 0;
  const look = (): void => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  };
  const timer = setInterval(look, 10);
  return () => {
    clearInterval(timer);
    look();
    return longest;
  };
}

const order = ["starting", "running", "exited"];
const rounds = process.env["HOLDFAST_SOAK"] === "1" ? 100 : 4;

test("a writer killed at any moment loses no committed record, and leaves none half written", async () => {
  const promised = new Map<string, string>();
  for (let round = 0; round < rounds; round += 1) {
    await using writer = startChild("write-runs", resolve("dist"), path, `round${round}`);
    // A different number of messages each time, so that the kill comes at different moments.
    for (let message = 0; message < 20 + round * 7; message += 1) {
      const { runId, state } = (await writer.next()) as { runId: string; state: string };
      promised.set(runId, state);
    }
    await writer.kill();

    await using store = await openSqliteStore({ path });
    const records = new Map((await store.listRuns({})).map((record) => [record.runId, record]));
    const events = await store.listEvents({});
    for (const [runId, state] of promised) {
      expect(order.indexOf(records.get(runId)?.state ?? "")).toBeGreaterThanOrEqual(order.indexOf(state));
    }
    for (const { runId, state, exit } of records.values()) {
      // One event per step, written with it.
      expect(events.filter((one) => one.runId === runId)).toHaveLength(order.indexOf(state) + 1);
      expect(exit !== null).toBe(state === "exited");
    }
  }
  const db = new DatabaseSync(path);
  expect(db.prepare("pragma integrity_check").all()).toMatchObject([{ integrity_check: "ok" }]);
  db.close();
});

test("eight processes that open an empty database at once create one schema", async () => {
  const children = Array.from({ length: 8 }, () => startChild("open-store", resolve("dist"), path));
  for (const child of children) expect(await child.next()).toBe("ready");
  for (const child of children) child.send("go");
  for (const child of children) expect(await child.next()).toBe("opened");
  expect(await Promise.all(children.map(({ ended }) => ended))).toEqual(Array.from({ length: 8 }, () => 0));
  await using store = await openSqliteStore({ path });
  expect(await store.listEvents({})).toHaveLength(8);
  const db = new DatabaseSync(path);
  expect(db.prepare("select count(*) as count from holdfast_migrations").all()).toMatchObject([
    { count: migrations.length },
  ]);
  db.close();
});

test("each of a thousand expired leases is stolen exactly once by four processes", async () => {
  await using store = await openSqliteStore({ path });
  const leases: Lease[] = [];
  for (let count = 0; count < 1_000; count++) leases.push(await store.insertRun(newRun(), -1));
  const thieves = ["one", "two", "three", "four"];
  const children = thieves.map((thief) => startChild("steal", resolve("dist"), path, thief));
  for (const child of children) expect(await child.next()).toBe("ready");
  for (const child of children) child.send(leases);
  const stolen = await Promise.all(children.map(async (child) => (await child.next()) as string[]));
  await Promise.all(children.map(({ ended }) => ended));
  expect(stolen.flat().toSorted()).toEqual(leases.map(({ runId }) => runId).toSorted());
  const owners = (await Promise.all(thieves.map((thief) => store.listOwnedRunIds(thief)))).map(
    (runs) => runs.length,
  );
  expect(owners).toEqual(stolen.map((runs) => runs.length));
});

test("a permanent lock is reported after the wait, and nothing is half written", async () => {
  await using store = await openSqliteStore({ path, busyMs: 50 });
  const lease = await store.insertRun(newRun(), LEASE_MS);
  await using holder = startChild("hold-write-lock", path);
  expect(await holder.next()).toBe("locked");
  const error = await storeUnusable(store.saveRun(lease, RUNNING, [newRunEvent("r")]));
  expect(error.message).toContain("stayed locked by another process");
  expect((await storeUnusable(store.renewLeases("owner-a", LEASE_MS))).message).toContain("Try again");
  expect(await store.getRun(lease.runId)).toMatchObject({ state: "starting" });
  await holder.kill();
  expect(await store.saveRun(lease, RUNNING, [newRunEvent("r")])).toBe(true);
  expect(await store.listEvents({})).toHaveLength(1);
});

test("waiting for a lock of another process does not block the event loop, and keeps the order of writes", async () => {
  await using store = await openSqliteStore({ path });
  const lease = await store.insertRun(newRun(), LEASE_MS);
  await using _holder = await heldFor(2_000);
  const longest = longestStandstill();
  const writes = [
    store.saveRun(lease, RUNNING, [newRunEvent(lease.runId, 1)]),
    store.appendEvents([newRunEvent(lease.runId, 2)]),
    store.saveRun(lease, { to: "output", at: 3 }),
    store.appendEvents([newRunEvent(lease.runId, 4)]),
  ];
  // A reader does not queue behind writes that wait.
  expect(await store.getRun(lease.runId)).toMatchObject({ state: "starting" });
  await Promise.all(writes);
  expect(longest()).toBeLessThan(1_000);
  expect((await store.listEvents({})).map(({ at }) => at)).toEqual([1, 2, 4]);
  expect(await store.getRun(lease.runId)).toMatchObject({ state: "running", lastOutputAt: 3 });
});

test("opening a store that another process has locked does not block the event loop", async () => {
  {
    using db = new DatabaseSync(path);
    db.exec("pragma journal_mode = wal");
  }
  await using _holder = await heldFor(1_500);
  const longest = longestStandstill();
  await using store = await openSqliteStore({ path });
  expect(longest()).toBeLessThan(1_000);
  expect(await store.listRuns({})).toEqual([]);
});

test("closing a store does not wait for a lock: writes that wait for it are refused", async () => {
  const store = await openSqliteStore({ path, busyMs: 60_000 });
  const lease = await store.insertRun(newRun(), LEASE_MS);
  await using _holder = await heldFor(60_000);
  const writes = [store.saveRun(lease, RUNNING), store.renewLeases("owner-a", LEASE_MS)];
  const refused = Promise.all(writes.map((write) => storeUnusable(write)));
  await store[Symbol.asyncDispose]();
  for (const { message } of await refused) expect(message).toContain("stayed locked");
});

test("the clock is one for all processes of this boot", async () => {
  await using store = await openSqliteStore({ path });
  const before = await store.now();
  await using child = startChild("clock", resolve("dist"));
  const theirs = (await child.next()) as number;
  expect(theirs).toBeGreaterThanOrEqual(before);
  expect(theirs).toBeLessThanOrEqual(await store.now());
});
