import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { StateUnusable } from "../../../src/errors.js";
import { migrations } from "../../../src/store/sql/migrations.js";
import { openSqliteStoreForReading } from "../../../src/store/sqlite/open-for-reading.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { startChild } from "../../support/store/child-process.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { LEASE_MS, newRunEvent, EXITED, newRun, RUNNING } from "../../support/store/run-samples.js";
import { temporaryDirectory, type TemporaryDirectory } from "../../support/temporary-directory.js";
import { dumpStore, fillStore } from "../copy/filled-store.js";

const newest = migrations.at(-1)?.id ?? 0;

let directory: TemporaryDirectory;
let path: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
  path = join(directory.path, "sp%41ce ?#", "store.sqlite");
  // Characters that have a meaning in a URL.
  await mkdir(join(path, ".."));
});
afterEach(() => directory[Symbol.asyncDispose]());

/** A store that is not open: without a log, or with the log of a writer that was killed. */
async function writeStore(log: "without a log" | "with a log"): Promise<void> {
  await using writer = startChild("write-runs", resolve("dist"), path, "run");
  for (let words = 0; words < 12; words += 1) await writer.next();
  await writer.kill();
  if (log === "with a log") return;
  const db = new DatabaseSync(path);
  db.exec("pragma wal_checkpoint(truncate)");
  db.close();
}

/** Hashes of all files in the directory. This process must not have them open. */
async function contents(): Promise<Record<string, string>> {
  const dir = join(path, "..");
  const files = (await readdir(dir)).toSorted();
  const hash = async (file: string): Promise<[string, string]> => [
    file,
    createHash("sha256")
      .update(await readFile(join(dir, file)))
      .digest("hex"),
  ];
  return Object.fromEntries(await Promise.all(files.map(hash)));
}

test("a missing store is null for a reader, and opening it creates nothing", async () => {
  expect(await openSqliteStoreForReading(path)).toBeNull();
  expect(await openSqliteStoreForReading(join(directory.path, "missing", "store.sqlite"))).toBeNull();
  expect(await contents()).toEqual({});
});

test("an empty store is null for a reader", async () => {
  await writeFile(path, "");
  expect(await openSqliteStoreForReading(path)).toBeNull();
  expect((await stat(path)).size).toBe(0);
});

for (const log of ["without a log", "with a log"] as const) {
  test(`reading a store ${log} answers like the store and changes no byte`, async () => {
    await writeStore(log);
    const before = await contents();
    const reader = (await openSqliteStoreForReading(path)) ?? expect.fail("no store");
    const runs = await reader.listRuns({});
    expect(runs.length).toBeGreaterThanOrEqual(3);
    expect(await reader.getRun("run-0")).toMatchObject({ state: "exited", exit: { code: 0 } });
    expect(await reader.findRuns("run-0", 5)).toHaveLength(1);
    expect((await reader.listEvents({ runId: "run-0" })).map(({ at }) => at)).toEqual([0, 0, 0]);
    expect(await reader.now()).toBeGreaterThan(0);
    await reader[Symbol.asyncDispose]();
    const after = await contents();
    // The index of the log is a cache, rebuilt by the first reader after a crash.
    delete before["store.sqlite-shm"];
    delete after["store.sqlite-shm"];
    expect(after).toEqual(before);
    expect(Object.keys(after)).toContain("store.sqlite");
  });
}

test("a reader sees the commits of a supervisor that starts and closes while it reads", async () => {
  await writeStore("without a log");
  await using reader = (await openSqliteStoreForReading(path)) ?? expect.fail("no store");
  expect(await reader.getRun("late")).toBeNull();
  const store = await openSqliteStore({ path });
  const lease = await store.insertRun(newRun({ runId: "late" }), LEASE_MS);
  expect(await reader.getRun("late")).toMatchObject({ state: "starting" });
  await store.saveRun(lease, RUNNING, [newRunEvent("late")]);
  expect(await reader.getRun("late")).toMatchObject({ state: "running" });
  await store.saveRun(lease, EXITED);
  await store[Symbol.asyncDispose]();
  expect(await reader.getRun("late")).toMatchObject({ state: "exited" });
  expect(await reader.listEvents({ runId: "late" })).toHaveLength(1);
});

test("a reader does not block a writer, nor a writer a reader", async () => {
  await using store = await openSqliteStore({ path, busyMs: 0 });
  const lease = await store.insertRun(newRun(), LEASE_MS);
  await using reader = (await openSqliteStoreForReading(path)) ?? expect.fail("no store");
  expect(await reader.getRun(lease.runId)).toMatchObject({ state: "starting" });
  expect(await store.saveRun(lease, RUNNING)).toBe(true);
  await using holder = startChild("hold-write-lock", path);
  expect(await holder.next()).toBe("locked");
  expect(await reader.getRun(lease.runId)).toMatchObject({ state: "running" });
});

test("a store on a read-only disk can be read, with a log and without", async (context) => {
  if (whyNoMounts !== null) context.skip(whyNoMounts);
  for (const log of ["without a log", "with a log"] as const) {
    await using disk = mountSmallDisk("8m");
    path = join(disk.path, "store.sqlite");
    await writeStore(log);
    await using reader = await openSqliteStoreForReading(join(disk.readOnlyPath, "store.sqlite"));
    expect((await reader?.listRuns({}))?.length).toBeGreaterThanOrEqual(3);
  }
});

test("a reader reads every record as the store does", async () => {
  let written: unknown;
  {
    await using store = await openSqliteStore({ path });
    await fillStore(store);
    written = await dumpStore(store);
  }
  await using reader = (await openSqliteStoreForReading(path)) ?? expect.fail("no store");
  expect(await dumpStore(reader)).toEqual(written);
});

test("a store that cannot be read is refused with a reason and not changed", async () => {
  const cases: Record<string, (db: DatabaseSyncInstance) => void> = {
    [`older Holdfast (schema 4, this one reads ${newest})`]: (db) =>
      db.exec("delete from holdfast_migrations where id >= 5"),
    [`newer Holdfast (schema 9999, this one knows ${newest})`]: (db) =>
      db.exec("insert into holdfast_migrations (id, name, applied_at) values (9999, 'x', 0)"),
    "some other program": (db) => db.exec("drop table holdfast_migrations"),
  };
  for (const [reason, change] of Object.entries(cases)) {
    path = join(directory.path, `${Object.keys(cases).indexOf(reason)}.sqlite`);
    const store = await openSqliteStore({ path });
    await store[Symbol.asyncDispose]();
    const db = new DatabaseSync(path);
    change(db);
    db.close();
    await expect(openSqliteStoreForReading(path)).rejects.toThrow(reason);
  }
  path = join(directory.path, "garbage.sqlite");
  await writeFile(path, "garbage".repeat(2_000));
  const refused = openSqliteStoreForReading(path);
  await expect(refused).rejects.toBeInstanceOf(StateUnusable);
  await expect(refused).rejects.toThrow("damaged");
});
