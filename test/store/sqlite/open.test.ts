import { stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { knownColumns, migrations, TABLES } from "../../../src/store/sql/migrations.js";
import { openSqliteStoreForReading } from "../../../src/store/sqlite/open-for-reading.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import { storeUnusable } from "../../support/store/postgres-server.js";
import { LEASE_MS, newRunEvent, EXITED, forbiddenUpdates, newRun } from "../../support/store/run-samples.js";
import { newSession } from "../../support/store/session-samples.js";
import { temporaryDirectory, type TemporaryDirectory } from "../../support/temporary-directory.js";

const newest = migrations.at(-1)?.id ?? 0;

let directory: TemporaryDirectory;
let path: string;

beforeEach(async () => {
  directory = await temporaryDirectory();
  path = join(directory.path, "store.sqlite");
});
afterEach(() => directory[Symbol.asyncDispose]());

function tamper(sql: string): void {
  const db = new DatabaseSync(path);
  db.exec(sql);
  db.close();
}

async function createStore(): Promise<void> {
  const store = await openSqliteStore({ path });
  await store[Symbol.asyncDispose]();
}

test("the store is a WAL database that only its owner can read", async () => {
  await createStore();
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  const db = new DatabaseSync(path);
  expect(db.prepare("pragma journal_mode").all()).toMatchObject([{ journal_mode: "wal" }]);
  expect(db.prepare("select id, name from holdfast_migrations order by id").all()).toMatchObject(
    migrations.map(({ id, name }) => ({ id, name })),
  );
  db.close();
});

test("a store written by a newer version is refused with the remedy, and not changed", async () => {
  await createStore();
  tamper("insert into holdfast_migrations (id, name, applied_at) values (9999, 'from the future', 0)");
  const error = await storeUnusable(openSqliteStore({ path }));
  expect(error.message).toContain(`newer Holdfast (schema 9999, this one knows ${newest})`);
  expect(error.message).toContain("Upgrade Holdfast");
  const db = new DatabaseSync(path);
  expect(db.prepare("select max(id) as id from holdfast_migrations").all()).toMatchObject([{ id: 9999 }]);
  db.close();
});

test("the known columns of a table are those that the migrations create", async () => {
  await createStore();
  const db = new DatabaseSync(path);
  for (const table of TABLES) {
    const columns = db.prepare(`select name from pragma_table_info('${table}')`).all() as { name: string }[];
    expect([...knownColumns(table)].sort(), table).toEqual(columns.map(({ name }) => name).sort());
  }
  db.close();
});

test("a column that a newer version added is not a field of the record", async () => {
  await using store = await openSqliteStore({ path });
  const run = newRun();
  await store.insertRun(run, LEASE_MS);
  const before = await store.getRun(run.runId);
  tamper("alter table runs add column from_the_future text not null default 'x'");
  expect(await store.getRun(run.runId)).toEqual(before);
});

/** Undoes the migrations that gave runs their sessions. */
const BEFORE_SESSIONS_OF_RUNS = `
  drop index runs_open_of_state; alter table run_events drop column state_id;
  drop trigger runs_exited_is_final; drop index runs_of_session_id;
  drop table commands; drop table hosts; drop table gateways; alter table runs drop column state_id;
  alter table runs drop column session_id; alter table runs drop column hidden_at;
  alter table runs drop column time_namespace;
  create trigger runs_exited_is_final before update on runs when old.state = 'exited'
  begin select raise(abort, 'an exited run never changes'); end;
  delete from holdfast_migrations where id between 7 and 10 or id = 14;`;

test("runs of an older release are completed with the session that had their key when they started", async () => {
  const first = newSession({ key: "k", createdAt: 100, lineage: [] });
  const second = newSession({ key: "k", createdAt: 300, lineage: [] });
  const runs = [50, 150, 250, 350].map((createdAt) => newRun({ sessionKey: "k", createdAt }));
  const stranger = newRun({ sessionKey: "no session's", createdAt: 150 });
  {
    await using store = await openSqliteStore({ path });
    await store.createSession(first);
    await store.closeSession(first.id, "a", 200);
    await store.createSession(second);
    for (const run of [...runs, stranger]) await store.saveRun(await store.insertRun(run, LEASE_MS), EXITED);
  }
  tamper(BEFORE_SESSIONS_OF_RUNS);
  await using store = await openSqliteStore({ path });
  const ids = await Promise.all(
    [...runs, stranger].map(async ({ runId }) => (await store.getRun(runId))?.sessionId),
  );
  expect(ids).toEqual([null, first.id, null, second.id, null]);
  // They have neither a state directory nor a time namespace, and their host has no name.
  const { runId, hostId } = stranger;
  expect(await store.getRun(runId)).toMatchObject({ stateId: null, timeNamespace: null });
  const oldest = 50;
  expect(await store.listHosts()).toMatchObject([{ hostId, name: "", firstSeenAt: oldest }]);
  await store.registerHost({ hostId, name: "named", platform: "linux" });
  expect(await store.listHosts()).toMatchObject([{ name: "named", firstSeenAt: oldest }]);
});

test("an ended run can be hidden, and nothing else of it can change", async () => {
  {
    await using store = await openSqliteStore({ path });
    await store.saveRun(await store.insertRun(newRun(), LEASE_MS), EXITED);
  }
  const db = new DatabaseSync(path);
  const columns = db.prepare("select name from pragma_table_info('runs')").all() as { name: string }[];
  db.close();
  expect(columns.length).toBeGreaterThan(50);
  for (const change of forbiddenUpdates(
    new Map(columns.map(({ name }) => [name, `coalesce(${name}, 0) + 1`])),
  ))
    expect(() => tamper(`update runs set ${change}`), change).toThrow("an exited run never changes");
  tamper("update runs set hidden_at = 1");
  expect(() => tamper("update runs set hidden_at = 2")).toThrow("an exited run never changes");
});

test("a schema half applied by an older version is completed", async () => {
  await createStore();
  tamper(`${BEFORE_SESSIONS_OF_RUNS}
    alter table runs drop column limits; alter table runs drop column exit_limit;
    drop table task_outbox; drop table task_events; drop table tasks;
    drop table acp_permission_rules; drop table acp_permissions; drop table acp_updates; drop table acp_turns; drop table acp_sessions;
    drop index runs_of_session; drop table session_messages; drop table approvals; drop table session_tokens; drop table sessions;
    drop index runs_ended; alter table runs drop column imported; alter table runs drop column service; alter table runs drop column origin_instance_id;
    drop table run_events; delete from holdfast_migrations where id >= 2;
    alter table holdfast_migrations drop column min_compatible`);
  await using store = await openSqliteStore({ path });
  await store.appendEvents([newRunEvent("r")]);
  expect(await store.listEvents({})).toHaveLength(1);
});

test("a skipped migration is applied although a later one is recorded; a reader refuses the store until then", async () => {
  await createStore();
  tamper(`drop trigger runs_exited_is_final; alter table runs drop column limits; alter table runs drop column exit_limit;
    delete from holdfast_migrations where id = 5`);
  expect((await storeUnusable(openSqliteStoreForReading(path))).message).toContain(
    `schema 4, this one reads ${newest}`,
  );
  await using store = await openSqliteStore({ path });
  const limits = { memoryBytes: null, pids: 5, cpus: null };
  const { runId } = await store.insertRun(newRun({ limits }), LEASE_MS);
  expect(await store.getRun(runId)).toMatchObject({ limits });
});

test("another program's database is refused and left alone", async () => {
  tamper("create table customers (name text)");
  expect((await storeUnusable(openSqliteStore({ path }))).message).toContain("some other program");
});

test("a file that is not a database is refused as damaged, with the cause", async () => {
  await writeFile(path, "this is not a database, and long enough to look like a page of one".repeat(100));
  const error = await storeUnusable(openSqliteStore({ path }));
  expect(error.message).toContain("damaged");
  expect(error.message).toContain("left as it is");
  expect(error.path).toBe(path);
  expect(error.cause).toBeInstanceOf(Error);
});

test("damage found later is reported as damage", async () => {
  const first = await openSqliteStore({ path });
  for (let count = 0; count < 200; count += 1) await first.insertRun(newRun(), LEASE_MS);
  await first[Symbol.asyncDispose]();
  tamper("pragma wal_checkpoint(truncate)");
  const { size } = await stat(path);
  await truncate(path, Math.floor(size / 2));
  const error = await storeUnusable(
    (async () => {
      await using store = await openSqliteStore({ path });
      await store.listRuns({});
    })(),
  );
  expect(error.message).toContain("damaged");
});

test("a missing directory is reported as such", async () => {
  const error = await storeUnusable(
    openSqliteStore({ path: join(directory.path, "missing", "store.sqlite") }),
  );
  expect(error.message).toContain("cannot be opened");
});

describe("on a disk", () => {
  test("without space, writes are refused with the reason, and succeed again when there is space", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("512k");
    path = join(disk.path, "store.sqlite");
    await using store = await openSqliteStore({ path });
    const filler = join(disk.path, "filler");
    const lease = await store.insertRun(newRun(), LEASE_MS);
    await writeFile(filler, Buffer.alloc(1024 * 1024)).catch(() => {});
    let committed = 1;
    const error = await storeUnusable(
      (async () => {
        for (;;) {
          await store.insertRun(newRun(), LEASE_MS, [newRunEvent("r")]);
          committed += 1;
        }
      })(),
    );
    expect(error.message).toContain("no space is left");
    expect(error.message).toContain("can still be stopped");
    expect(await store.listRuns({})).toHaveLength(committed);
    expect(await store.listEvents({})).toHaveLength(committed - 1);
    await storeUnusable(store.saveRun(lease, EXITED, [newRunEvent("r")]));
    await truncate(filler, 0);
    expect(await store.saveRun(lease, EXITED, [newRunEvent("r")])).toBe(true);
    expect(await store.listEvents({})).toHaveLength(committed);
  });

  test("that is read-only, opening is refused and says so", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("512k");
    path = join(disk.path, "store.sqlite");
    await createStore();
    const error = await storeUnusable(openSqliteStore({ path: join(disk.readOnlyPath, "store.sqlite") }));
    expect(error.message).toContain("read-only");
  });
});
