import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { copyStore, type CopiedTable } from "../../../src/store/copy/copy.js";
import { acquireInstanceLock } from "../../../src/home/instance-lock.js";
import { parseStoreLocation } from "../../../src/store/location.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { TABLES } from "../../../src/store/sql/migrations.js";
import { startChild } from "../../support/store/child-process.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { startCuttableProxy } from "../../support/store/postgres-proxy.js";
import {
  startPostgresServer,
  whyNoPostgres,
  type PostgresDatabase,
  type PostgresServer,
} from "../../support/store/postgres-server.js";
import { newGateway } from "../../contract/gateway-contract.js";
import { newRunEvent, LEASE_MS, newRun, stealClaim } from "../../support/store/run-samples.js";
import { temporaryDirectory, type TemporaryDirectory } from "../../support/temporary-directory.js";
import { dumpStore, EVENT_COUNT, fillStore } from "./filled-store.js";

/** A filled SQLite store whose runs' owner, an instance of its directory, is no more. */
async function house(): Promise<{ home: TemporaryDirectory; path: string }> {
  const home = await temporaryDirectory();
  const path = join(home.path, "store.sqlite");
  await mkdir(join(home.path, "instances", "owner-a"), { recursive: true });
  await using store = await openSqliteStore({ path });
  await fillStore(store);
  return { home, path };
}

async function copy(from: string, to: string, more: object = {}): Promise<readonly CopiedTable[]> {
  return copyStore({
    from: await parseStoreLocation(from),
    to: await parseStoreLocation(to),
    home: "/nowhere",
    ...more,
  });
}

async function bytesOf(path: string): Promise<string> {
  const bytes = await readFile(path).catch(() => Buffer.from("none"));
  return createHash("sha256").update(bytes).digest("hex");
}

describe("SQLite to SQLite", { timeout: 120_000 }, () => {
  test("all records are copied, numbering continues, and the source is unchanged to the byte", async () => {
    const { home, path } = await house();
    await using _ = home;
    // The last to close a database empties its log; the store that filled it does so whenever its statements are collected.
    using _open = new DatabaseSync(path);
    _open.exec("select count(*) from runs");
    const files = [path, `${path}-wal`];
    const before = await Promise.all(files.map(bytesOf));
    const to = join(home.path, "other.sqlite");
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
    // What has no row here would not be missed.
    expect(copied.filter(({ rows }) => rows === 0).map(({ table }) => table)).toEqual([]);
    expect(await Promise.all(files.map(bytesOf))).toEqual(before);
    await using source = await openSqliteStore({ path });
    await using target = await openSqliteStore({ path: to });
    expect(await dumpStore(target)).toEqual(await dumpStore(source));
    await target.appendEvents([newRunEvent("run_open")]);
    // The number of the run that was deleted is not given again.
    expect((await target.listEvents({ after: EVENT_COUNT })).map(({ seq }) => seq)).toEqual([
      EVENT_COUNT + 2,
    ]);
  });

  test("the copied file is complete without its log", async () => {
    const { home, path } = await house();
    await using _ = home;
    const to = join(home.path, "other.sqlite");
    const backup = join(home.path, "backup.sqlite");
    await copy(path, to);
    await copyFile(to, backup);
    await using source = await openSqliteStore({ path });
    await using target = await openSqliteStore({ path: backup });
    expect(await dumpStore(target)).toEqual(await dumpStore(source));
  });

  test("a backup elsewhere keeps the local copy; a copy to the store in use deletes it", async () => {
    const { home, path } = await house();
    await using _ = home;
    await using elsewhere = await temporaryDirectory();
    const kept = join(home.path, "ledger", "run_open.json");
    await mkdir(join(home.path, "ledger"));
    await writeFile(kept, "{}");
    await copy(path, join(elsewhere.path, "backup.sqlite"), { home: home.path });
    expect(existsSync(kept)).toBe(true);
    await copy(path, join(home.path, "other.sqlite"), { home: home.path });
    expect(existsSync(kept)).toBe(false);
  });

  test("a local copy that cannot be removed does not undo the copy of a store", async () => {
    const { home, path } = await house();
    await using _ = home;
    const localCopy = join(home.path, "ledger");
    await mkdir(localCopy);
    const left: string[] = [];
    const onLeft = (what: string): unknown => left.push(what);
    try {
      vi.stubEnv("HOLDFAST_DATABASE_URL", "postgres://u@db/inuse");
      await copy(path, join(home.path, "backup.sqlite"), { home: home.path, onIncomplete: onLeft });
      expect([existsSync(localCopy), left]).toEqual([true, []]);
      vi.stubEnv("HOLDFAST_DATABASE_URL", "no address");
      await copy(path, join(home.path, "another.sqlite"), { home: home.path, onIncomplete: onLeft });
      expect([existsSync(localCopy), left]).toEqual([
        true,
        [expect.stringContaining("could not be removed")],
      ]);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test("records in the log of a killed writer are copied, too", async () => {
    const { home, path } = await house();
    await using _ = home;
    const store = await openSqliteStore({ path });
    await store.appendEvents([newRunEvent("run_late")]);
    expect(existsSync(`${path}-wal`)).toBe(true);
    const copied = await copy(path, join(home.path, "other.sqlite"));
    expect(copied.find(({ table }) => table === "run_events")?.rows).toBe(EVENT_COUNT + 1);
    await store[Symbol.asyncDispose]();
  });

  test("a lease keeps its remaining time or expiry in the copy, and its owner can renew it", async () => {
    const { home, path } = await house();
    await using _ = home;
    const old = newRun({ runId: "run_old", ownerInstanceId: "owner-b" });
    const lease = { runId: "run_open", ownerInstanceId: "owner-a", epoch: 1 };
    const abandoned = { runId: "run_old", ownerInstanceId: "owner-b", epoch: 1 };
    {
      await using store = await openSqliteStore({ path });
      await store.insertRun(old, -defaults.stalledOwnerMs - 1_000);
    }
    const to = join(home.path, "other.sqlite");
    await copy(path, to);
    await using target = await openSqliteStore({ path: to });
    expect(await target.acquireLease(stealClaim(lease, "thief", 60_000))).toBeNull();
    expect(await target.acquireLease(stealClaim(abandoned, "thief", defaults.stalledOwnerMs))).not.toBeNull();
    expect(await target.renewLeases("owner-a", LEASE_MS)).toBe(1);
    expect(await target.acquireLease(stealClaim(lease, "thief", 0))).toBeNull();
  });

  test("it is refused, by name, while a supervisor is at work beside either store, and nothing is made", async () => {
    const { home, path } = await house();
    await using _ = home;
    const to = join(home.path, "other.sqlite");
    const alive = join(home.path, "instances", "owner-b");
    await mkdir(alive, { recursive: true });
    await using lock = await acquireInstanceLock(alive);
    await expect(copy(path, to)).rejects.toThrow(`supervisor owner-b is at work in ${home.path}`);
    expect(existsSync(to)).toBe(false);
    await lock[Symbol.asyncDispose]();
    await copy(path, to);
  });

  test("it is refused, by name, while somebody elsewhere holds a lease", async () => {
    const { home, path } = await house();
    await using _ = home;
    {
      await using store = await openSqliteStore({ path });
      const bootId = (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
      await store.insertRun(newRun({ ownerInstanceId: "in_else", hostId: "far", bootId }), LEASE_MS);
    }
    await expect(copy(path, join(home.path, "other.sqlite"))).rejects.toThrow(
      /supervisor in_else of host far holds 1 open runs, for (29|30) s more/,
    );
  });

  test("a supervisor that starts during the copy undoes it", async () => {
    const { home, path } = await house();
    await using _ = home;
    const to = join(home.path, "other.sqlite");
    const late = join(home.path, "instances", "in_late");
    await mkdir(late);
    let lock: Promise<AsyncDisposable> | null = null;
    const onProgress = (): void => void (lock ??= acquireInstanceLock(late));
    await expect(copy(path, to, { onProgress })).rejects.toThrow("supervisor in_late is at work");
    await using target = await openSqliteStore({ path: to });
    expect(await target.listRuns({})).toEqual([]);
    await (await (lock as Promise<AsyncDisposable> | null))?.[Symbol.asyncDispose]();
  });

  test("a target with records and a source without any are refused", async () => {
    const { home, path } = await house();
    await using _ = home;
    const to = join(home.path, "other.sqlite");
    {
      await using store = await openSqliteStore({ path: to });
      await store.appendEvents([newRunEvent("run_mine")]);
    }
    await expect(copy(path, to)).rejects.toThrow("already has records (in run_events)");
    await expect(copy(path, path)).rejects.toThrow("already has records");
    await using target = await openSqliteStore({ path: to });
    expect(await target.listEvents({})).toHaveLength(1);
    await expect(copy(join(home.path, "none"), join(home.path, "new"))).rejects.toThrow("has no records");
    expect(existsSync(join(home.path, "new"))).toBe(false);
  });

  test("a killed copy leaves nothing, and can be repeated", async () => {
    const { home, path } = await house();
    await using _ = home;
    const to = join(home.path, "other.sqlite");
    await using child = startChild("copy-and-die", resolve("dist"), path, to, "3");
    expect(await child.ended).toBeNull();
    {
      await using target = await openSqliteStore({ path: to });
      expect(await target.listRuns({})).toEqual([]);
    }
    expect(await copy(path, to)).toHaveLength(TABLES.length);
  });

  test.skipIf(whyNoMounts !== null)("a full disk leaves nothing", async () => {
    const { home, path } = await house();
    await using _ = home;
    await using disk = mountSmallDisk("512k");
    const to = join(disk.path, "store.sqlite");
    await expect(copy(path, to)).rejects.toThrow(`no space is left for ${to}`);
    await using target = await openSqliteStore({ path: to });
    expect(await target.listRuns({})).toEqual([]);
  });
});

describe.skipIf(whyNoPostgres !== null)("SQLite and PostgreSQL", { timeout: 120_000 }, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgresServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const countsIn = (database: PostgresDatabase) =>
    database.query(
      "select (select count(*) from holdfast.runs)::int as runs, (select count(*) from holdfast.run_events)::int as events",
    );

  test("the list of tables is complete in each database", async () => {
    const database = await server.createDatabase();
    await using _ = await database.open();
    const rows = await database.query(
      "select tablename as name from pg_tables where schemaname = 'holdfast'",
    );
    const names = rows.map(({ name }) => String(name)).filter((name) => name !== "holdfast_migrations");
    expect(names.toSorted()).toEqual(TABLES.toSorted());
    expect(new Set(TABLES).size).toBe(TABLES.length);
  });

  test("a copy to the other database and back keeps the records, the numbering and the leases", async () => {
    const { home, path } = await house();
    await using _ = home;
    const database = await server.createDatabase();
    await copy(path, database.url, { home: home.path });
    await using source = await openSqliteStore({ path });
    const before = await dumpStore(source);
    {
      await using there = await database.open();
      // What no text of PostgreSQL can hold.
      const kept = JSON.parse(JSON.stringify(before).replaceAll(String.raw`\u0000`, "\u{FFFD}")) as unknown;
      expect(await dumpStore(there)).toEqual(kept);
      const [run] = await there.listRuns({ states: ["running"] });
      const now = await there.now();
      expect(run?.leaseExpiresAt).toBeLessThanOrEqual(now);
      expect(run?.leaseExpiresAt).toBeGreaterThan(now - 60_000);
      await there.appendEvents([newRunEvent("run_open")]);
      expect((await there.listEvents({ after: EVENT_COUNT })).map(({ seq }) => seq)).toEqual([
        EVENT_COUNT + 2,
      ]);
      expect(await there.renewLeases("owner-a", LEASE_MS)).toBe(1);
    }
    const back = join(home.path, "back.sqlite");
    await copy(database.url, back, { home: home.path });
    await using again = await openSqliteStore({ path: back });
    await using there = await database.open();
    expect(await dumpStore(again)).toEqual(await dumpStore(there));
    const [run] = await again.listRuns({ states: ["running"] });
    expect(run?.leaseExpiresAt).toBeLessThanOrEqual(await again.now());
    await again.appendEvents([newRunEvent("run_open")]);
    expect((await again.listEvents({ after: EVENT_COUNT + 2 })).map(({ seq }) => seq)).toEqual([
      EVENT_COUNT + 3,
    ]);
  });

  test("a backup of the database in use in another leaves the ledger; a move to the one in use does not", async () => {
    const { home, path } = await house();
    await using _ = home;
    const [inUse, backup] = [await server.createDatabase(), await server.createDatabase()];
    const localCopy = join(home.path, "ledger");
    await mkdir(localCopy);
    vi.stubEnv("HOLDFAST_DATABASE_URL", inUse.url);
    try {
      await copy(path, inUse.url, { home: home.path });
      expect(existsSync(localCopy)).toBe(false);
      await mkdir(localCopy);
      await copy(inUse.url, backup.url, { home: home.path });
      expect(existsSync(localCopy)).toBe(true);
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test("it is refused while a supervisor is connected, or another host holds a lease; both are named", async () => {
    const { home, path } = await house();
    await using _ = home;
    const database = await server.createDatabase();
    {
      await using idle = await database.open({ name: "in_idle" });
      await idle.now();
      await expect(copy(path, database.url)).rejects.toThrow("supervisor in_idle is connected");
      await idle.insertRun(newRun({ ownerInstanceId: "in_away", hostId: "far" }), LEASE_MS);
      await idle.registerGateway(newGateway({ instanceId: "in_calm", hostName: "bob" }));
    }
    await expect(copy(database.url, join(home.path, "x.sqlite"))).rejects.toThrow(
      /supervisor in_away of host far holds 1 open runs.*gateway in_calm of host bob sent a heartbeat/,
    );
  });

  test("killed in the middle, or cut off at any point, the database has nothing or everything", async () => {
    const { home, path } = await house();
    await using _ = home;
    const database = await server.createDatabase();
    await using child = startChild("copy-and-die", resolve("dist"), path, database.url, "3");
    expect(await child.ended).toBeNull();
    expect(await countsIn(database)).toEqual([{ runs: 0, events: 0 }]);
    await using proxy = await startCuttableProxy(server.directory);
    const through = database.url.replace(server.directory, proxy.directory);
    let done = false;
    for (let passing = 1; !done; passing += 17) {
      proxy.cut("answer", passing);
      const outcome = await copy(path, through).then(
        () => null,
        (error: unknown) => String(error),
      );
      const happened = proxy.mend();
      const [counts] = await countsIn(database);
      done = counts?.["runs"] !== 0;
      expect(counts).toEqual(done ? { runs: 2, events: EVENT_COUNT } : { runs: 0, events: 0 });
      if (happened) expect(outcome).not.toBeNull();
    }
    await expect(copy(path, database.url)).rejects.toThrow("already has records");
  });

  test("a copy that reads back differently is rolled back", async () => {
    const { home, path } = await house();
    await using _ = home;
    const database = await server.createDatabase();
    await (await database.open())[Symbol.asyncDispose]();
    await database.query(
      `create function holdfast.spoil() returns trigger language plpgsql as $$ begin new.cwd := 'elsewhere'; return new; end $$;
       create trigger spoil before insert on holdfast.runs for each row execute function holdfast.spoil()`,
    );
    await expect(copy(path, database.url)).rejects.toThrow("the table runs was read back with 2 rows");
    expect(await countsIn(database)).toEqual([{ runs: 0, events: 0 }]);
  });

  test("a place is an address in a variable or a file, and a mistake quotes none of it", async () => {
    const { home } = await house();
    await using _ = home;
    const file = join(home.path, "address");
    const url = "postgres://ada:hunter2@db/x";
    await writeFile(file, `${url}\n`);
    expect(await parseStoreLocation(`url-file:${file}`)).toEqual({ kind: "postgres", url });
    expect(await parseStoreLocation("env:HERE", { HERE: url })).toEqual({ kind: "postgres", url });
    await expect(parseStoreLocation("env:THERE", {})).rejects.toThrow("the environment has no THERE");
    for (const nameless of ["env:", "url-file:"])
      await expect(parseStoreLocation(nameless, {})).rejects.toThrow();
    await expect(parseStoreLocation("/")).rejects.toThrow("/ is a directory; a store is a file");
    const wrong = await parseStoreLocation("env:HERE", { HERE: "mysql://ada:hunter2@db/x" }).catch(String);
    expect(wrong).toContain("must look like");
    expect(wrong).not.toContain("hunter2");
  });
});
