import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { BackgroundCheckpoints } from "../../../src/store/sqlite/background-checkpoints.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { LEASE_MS, newRun } from "../../support/store/run-samples.js";
import { temporaryDirectory, type TemporaryDirectory } from "../../support/temporary-directory.js";
import { waitFor } from "../../support/wait-for.js";

let directory: TemporaryDirectory;
let path: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
  path = join(directory.path, "store.sqlite");
});
afterEach(() => directory[Symbol.asyncDispose]());

function openDatabase(): DatabaseSyncInstance {
  const db = new DatabaseSync(path, { timeout: 5_000 });
  db.exec("pragma journal_mode = wal; create table rows (data text)");
  return db;
}

const COMMIT_BYTES = 100 * 4096;

function fillLog(db: DatabaseSyncInstance, checkpoints: BackgroundCheckpoints, commits: number): void {
  for (let at = 0; at < commits; at++) {
    db.prepare("insert into rows values (?)").run("x".repeat(COMMIT_BYTES));
    checkpoints.committed();
  }
}

function autocheckpointPages(db: DatabaseSyncInstance): number {
  return (db.prepare("pragma wal_autocheckpoint").get() as { wal_autocheckpoint: number }).wal_autocheckpoint;
}

test("checkpoints are made in a thread, and commits go on meanwhile", async () => {
  const db = openDatabase();
  const checkpoints = new BackgroundCheckpoints(db, path);
  fillLog(db, checkpoints, 16);
  await waitFor("the log is copied", () => statSync(path).size > 16 * COMMIT_BYTES);
  fillLog(db, checkpoints, 16);
  await checkpoints.close();
  expect(db.prepare("select count(*) as rows from rows").all()).toMatchObject([{ rows: 32 }]);
  db.close();
});

test("the log starts again from its beginning although commits never pause", async () => {
  const db = openDatabase();
  const checkpoints = new BackgroundCheckpoints(db, path);
  const readLog = db.prepare("pragma wal_checkpoint(noop)");
  let longest = 0;
  await waitFor("the log starts again", () => {
    fillLog(db, checkpoints, 16);
    const [{ log } = { log: 0 }] = readLog.all() as { log: number }[];
    longest = Math.max(longest, log);
    return log < longest / 2;
  });
  await checkpoints.close();
  db.close();
});

test("SQLite makes the checkpoints if the thread fails", async () => {
  const db = openDatabase();
  const checkpoints = new BackgroundCheckpoints(db, path, join(directory.path, "missing.cjs"));
  expect(autocheckpointPages(db)).toBeGreaterThan(1000);
  fillLog(db, checkpoints, 16);
  await waitFor("the failure is known", () => autocheckpointPages(db) === 1000);
  fillLog(db, checkpoints, 16);
  await checkpoints.close();
  expect(db.prepare("pragma wal_checkpoint(noop)").all()).toMatchObject([{ busy: 0 }]);
  db.close();
});

test("a thread that finds another copy of SQLite leaves the log alone", async () => {
  const db = openDatabase();
  const copy = join(directory.path, "copy");
  const addon = "node_modules/@photostructure/sqlite";
  mkdirSync(join(copy, "node_modules"), { recursive: true });
  for (const name of [addon, "node_modules/node-gyp-build"])
    cpSync(name, join(copy, name), { recursive: true });
  cpSync("dist/bundle/checkpoint-thread.cjs", join(copy, "thread.cjs"));
  const checkpoints = new BackgroundCheckpoints(db, path, join(copy, "thread.cjs"));
  fillLog(db, checkpoints, 16);
  await waitFor("the other copy is noticed", () => autocheckpointPages(db) === 1000);
  await checkpoints.close();
  expect(existsSync(`${path}-wal`)).toBe(true);
  db.close();
});

test.each([
  ["moved away", () => {}],
  ["replaced", () => writeFileSync(path, "")],
])("a thread whose file was %s changes nothing", async (_, after) => {
  const db = openDatabase();
  const checkpoints = new BackgroundCheckpoints(db, path);
  renameSync(path, `${path}.moved`);
  after();
  const files = readdirSync(directory.path);
  const bytes = existsSync(path) ? statSync(path).size : null;
  fillLog(db, checkpoints, 16);
  await waitFor("it is noticed", () => autocheckpointPages(db) === 1000);
  await checkpoints.close();
  expect(readdirSync(directory.path)).toEqual(files);
  expect(existsSync(path) ? statSync(path).size : null).toBe(bytes);
  db.close();
});

test("a store with a thread for checkpoints keeps what was committed when it is closed", async () => {
  const store = await openSqliteStore({ path, backgroundCheckpoints: true });
  const runs = Array.from({ length: 200 }, () => newRun());
  for (const run of runs) await store.insertRun(run, LEASE_MS);
  await store[Symbol.asyncDispose]();
  await using again = await openSqliteStore({ path });
  for (const { runId } of runs) expect(await again.getRun(runId)).toMatchObject({ runId });
});
