import { existsSync } from "node:fs";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createHash } from "node:crypto";
import { DatabaseSync } from "@photostructure/sqlite";
import { beforeEach, expect, test, vi } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { acquireInstanceLock } from "../../../src/home/instance-lock.js";
import { TABLES } from "../../../src/store/sql/migrations.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { startChild } from "../../support/store/child-process.js";
import { LEASE_MS, newRun, newRunEvent, stealClaim } from "../../support/store/run-samples.js";
import { temporaryDirectory } from "../../support/temporary-directory.js";
import { copy, createFilledStore, dumpStore, EVENT_COUNT } from "./filled-store.js";

let home: string;
let path: string;
let to: string;
beforeEach(async () => {
  ({ home, path } = await createFilledStore());
  to = join(home, "other.sqlite");
});

async function bytesOf(file: string): Promise<string> {
  const bytes = await readFile(file).catch(() => Buffer.from("none"));
  return createHash("sha256").update(bytes).digest("hex");
}

test("all records are copied, numbering continues, and the source is unchanged to the byte", async () => {
  // The last connection that is closed empties the log; an open one keeps it.
  using _open = new DatabaseSync(path);
  _open.exec("select count(*) from runs");
  const files = [path, `${path}-wal`];
  const before = await Promise.all(files.map(bytesOf));
  const copied = await copy(path, to);
  expect(copied.map(({ table }) => table)).toEqual(TABLES);
  expect(Object.fromEntries(copied.map(({ table, rows }) => [table, rows]))).toMatchObject({
    runs: 2,
    run_events: EVENT_COUNT,
    sessions: 1,
    session_tokens: 1,
    approvals: 2,
    gateways: 1,
  });
  // A table without a row would prove nothing.
  expect(copied.filter(({ rows }) => rows === 0).map(({ table }) => table)).toEqual([]);
  expect(await Promise.all(files.map(bytesOf))).toEqual(before);
  await using source = await openSqliteStore({ path });
  await using target = await openSqliteStore({ path: to });
  expect(await dumpStore(target)).toEqual(await dumpStore(source));
  await target.appendEvents([newRunEvent("run_open")]);
  // The number of a deleted event is not used again.
  expect((await target.listEvents({ after: EVENT_COUNT })).map(({ seq }) => seq)).toEqual([EVENT_COUNT + 2]);
});

test("the copied file is complete without its log", async () => {
  const backup = join(home, "backup.sqlite");
  await copy(path, to);
  await copyFile(to, backup);
  await using source = await openSqliteStore({ path });
  await using target = await openSqliteStore({ path: backup });
  expect(await dumpStore(target)).toEqual(await dumpStore(source));
});

test("a backup elsewhere keeps the local copy; a copy to the store in use deletes it", async () => {
  await using elsewhere = await temporaryDirectory();
  const kept = join(home, "ledger", "run_open.json");
  await mkdir(join(home, "ledger"));
  await writeFile(kept, "{}");
  await copy(path, join(elsewhere.path, "backup.sqlite"), { home: home });
  expect(existsSync(kept)).toBe(true);
  await copy(path, join(home, "other.sqlite"), { home: home });
  expect(existsSync(kept)).toBe(false);
});

test("a local copy that cannot be removed does not undo the copy of a store", async () => {
  const localCopy = join(home, "ledger");
  await mkdir(localCopy);
  const left: string[] = [];
  const onLeft = (what: string): unknown => left.push(what);
  vi.stubEnv("HOLDFAST_DATABASE_URL", "postgres://u@db/inuse");
  await copy(path, join(home, "backup.sqlite"), { home: home, onIncomplete: onLeft });
  expect([existsSync(localCopy), left]).toEqual([true, []]);
  vi.stubEnv("HOLDFAST_DATABASE_URL", "no address");
  await copy(path, join(home, "another.sqlite"), { home: home, onIncomplete: onLeft });
  expect([existsSync(localCopy), left]).toEqual([true, [expect.stringContaining("could not be removed")]]);
});

test("records in the log of a killed writer are copied, too", async () => {
  const store = await openSqliteStore({ path });
  await store.appendEvents([newRunEvent("run_late")]);
  expect(existsSync(`${path}-wal`)).toBe(true);
  const copied = await copy(path, join(home, "other.sqlite"));
  expect(copied.find(({ table }) => table === "run_events")?.rows).toBe(EVENT_COUNT + 1);
  await store[Symbol.asyncDispose]();
});

test("a lease keeps its remaining time or expiry in the copy, and its owner can renew it", async () => {
  const old = newRun({ runId: "run_old", ownerInstanceId: "owner-b" });
  const lease = { runId: "run_open", ownerInstanceId: "owner-a", epoch: 1 };
  const abandoned = { runId: "run_old", ownerInstanceId: "owner-b", epoch: 1 };
  {
    await using store = await openSqliteStore({ path });
    await store.insertRun(old, -defaults.stalledOwnerMs - 1_000);
  }
  await copy(path, to);
  await using target = await openSqliteStore({ path: to });
  expect(await target.acquireLease(stealClaim(lease, "thief", 60_000))).toBeNull();
  expect(await target.acquireLease(stealClaim(abandoned, "thief", defaults.stalledOwnerMs))).not.toBeNull();
  expect(await target.renewLeases("owner-a", LEASE_MS)).toBe(1);
  expect(await target.acquireLease(stealClaim(lease, "thief", 0))).toBeNull();
});

test("a copy is refused while a supervisor works beside either store; the error names it, and nothing is created", async () => {
  const alive = join(home, "instances", "owner-b");
  await mkdir(alive, { recursive: true });
  await using lock = await acquireInstanceLock(alive);
  await expect(copy(path, to)).rejects.toThrow(`supervisor owner-b is at work in ${home}`);
  expect(existsSync(to)).toBe(false);
  await lock[Symbol.asyncDispose]();
  await copy(path, to);
});

test("a copy is refused while a supervisor elsewhere holds a lease; the error names it", async () => {
  {
    await using store = await openSqliteStore({ path });
    const bootId = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
    await store.insertRun(newRun({ ownerInstanceId: "in_else", hostId: "far", bootId }), LEASE_MS);
  }
  await expect(copy(path, join(home, "other.sqlite"))).rejects.toThrow(
    /supervisor in_else of host far holds 1 open runs, for (29|30) s more/,
  );
});

test("a supervisor that starts during the copy undoes it", async () => {
  const late = join(home, "instances", "in_late");
  await mkdir(late);
  let lock: Promise<AsyncDisposable> | null = null;
  const onProgress = (): void => void (lock ??= acquireInstanceLock(late));
  await expect(copy(path, to, { onProgress })).rejects.toThrow("supervisor in_late is at work");
  await using target = await openSqliteStore({ path: to });
  expect(await target.listRuns({})).toEqual([]);
  await (await (lock as Promise<AsyncDisposable> | null))?.[Symbol.asyncDispose]();
});

test("a target with records and a source without any are refused", async () => {
  {
    await using store = await openSqliteStore({ path: to });
    await store.appendEvents([newRunEvent("run_mine")]);
  }
  await expect(copy(path, to)).rejects.toThrow("already has records (in run_events)");
  await expect(copy(path, path)).rejects.toThrow("already has records");
  await using target = await openSqliteStore({ path: to });
  expect(await target.listEvents({})).toHaveLength(1);
  await expect(copy(join(home, "none"), join(home, "new"))).rejects.toThrow("has no records");
  expect(existsSync(join(home, "new"))).toBe(false);
});

test("a killed copy leaves nothing, and can be repeated", async () => {
  await using child = startChild("copy-and-die", resolve("dist"), path, to, "3");
  expect(await child.ended).toBeNull();
  {
    await using target = await openSqliteStore({ path: to });
    expect(await target.listRuns({})).toEqual([]);
  }
  expect(await copy(path, to)).toHaveLength(TABLES.length);
});

test.skipIf(whyNoMounts !== null)("a full disk leaves nothing", async () => {
  await using disk = mountSmallDisk("512k");
  to = join(disk.path, "store.sqlite");
  await expect(copy(path, to)).rejects.toThrow(`no space is left for ${to}`);
  await using target = await openSqliteStore({ path: to });
  expect(await target.listRuns({})).toEqual([]);
});
