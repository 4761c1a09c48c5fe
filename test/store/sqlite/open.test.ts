import { stat, truncate, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { StateUnusable } from "../../../src/errors.js";
import { migrations } from "../../../src/store/sql/migrations.js";
import { openSqliteStoreForReading } from "../../../src/store/sqlite/reader.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import type { Lease } from "../../../src/store/runs/store.js";
import { startChild } from "../../support/store/child-process.js";
import { mountSmallDisk, whyNoMounts } from "../../support/small-disk.js";
import {
  LEASE_MS,
  newRunEvent,
  EXITED,
  forbiddenUpdates,
  newRun,
  RUNNING,
} from "../../support/store/run-samples.js";
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

async function refusal(promise: Promise<unknown>): Promise<StateUnusable> {
  const error: unknown = await promise.then(
    () => expect.fail("it was not refused"),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(StateUnusable);
  return error as StateUnusable;
}

function tamper(sql: string): void {
  const db = new DatabaseSync(path);
  db.exec(sql);
  db.close();
}

/** Another process holds the write lock for so long. */
async function heldFor(ms: number): Promise<AsyncDisposable> {
  const holder = startChild("hold-write-lock", path, String(ms));
  expect(await holder.next()).toBe("locked");
  return holder;
}

/** How long the event loop has stood still at most since this call. */
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

test("a store written by a newer version is refused, says what to do, and is left alone", async () => {
  await createStore();
  tamper("insert into holdfast_migrations (id, name, applied_at) values (9999, 'from the future', 0)");
  const error = await refusal(openSqliteStore({ path }));
  expect(error.message).toContain(`newer Holdfast (schema 9999, this one knows ${newest})`);
  expect(error.message).toContain("Upgrade Holdfast");
  const db = new DatabaseSync(path);
  expect(db.prepare("select max(id) as id from holdfast_migrations").all()).toMatchObject([{ id: 9999 }]);
  db.close();
});

/** As the store was before runs knew their sessions. */
const BEFORE_SESSIONS_OF_RUNS = `
  drop index runs_open_of_state; alter table run_events drop column state_id;
  drop trigger runs_exited_is_final; drop index runs_of_session_id;
  drop table commands; drop table hosts; drop table gateways; alter table runs drop column state_id;
  alter table runs drop column session_id; alter table runs drop column hidden_at;
  alter table runs drop column time_namespace;
  create trigger runs_exited_is_final before update on runs when old.state = 'exited'
  begin select raise(abort, 'an exited run never changes'); end;
  delete from holdfast_migrations where id between 7 and 10 or id = 14;`;

test("runs of an older release get the session that had their key when they started", async () => {
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
});

test("runs of an older release have neither state directory nor time namespace, and their hosts no name", async () => {
  const run = newRun();
  {
    await using store = await openSqliteStore({ path });
    await store.saveRun(await store.insertRun(run, LEASE_MS), EXITED);
  }
  tamper(BEFORE_SESSIONS_OF_RUNS);
  await using store = await openSqliteStore({ path });
  expect(await store.getRun(run.runId)).toMatchObject({ stateId: null, timeNamespace: null });
  expect(await store.listHosts()).toMatchObject([
    { hostId: run.hostId, name: "", firstSeenAt: run.createdAt },
  ]);
  await store.registerHost({ hostId: run.hostId, name: "named", platform: "linux" });
  expect(await store.listHosts()).toMatchObject([{ name: "named", firstSeenAt: run.createdAt }]);
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
    drop table acp_permissions; drop table acp_updates; drop table acp_turns; drop table acp_sessions;
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
  expect((await refusal(openSqliteStoreForReading(path))).message).toContain(
    `schema 4, this one reads ${newest}`,
  );
  await using store = await openSqliteStore({ path });
  const limits = { memoryBytes: null, pids: 5, cpus: null };
  const { runId } = await store.insertRun(newRun({ limits }), LEASE_MS);
  expect(await store.getRun(runId)).toMatchObject({ limits });
});

test("another program's database is refused and left alone", async () => {
  tamper("create table customers (name text)");
  expect((await refusal(openSqliteStore({ path }))).message).toContain("some other program");
});

test("a file that is not a database is refused as damaged, with the cause", async () => {
  await writeFile(path, "this is not a database, and long enough to look like a page of one".repeat(100));
  const error = await refusal(openSqliteStore({ path }));
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
  const error = await refusal(
    (async () => {
      await using store = await openSqliteStore({ path });
      await store.listRuns({});
    })(),
  );
  expect(error.message).toContain("damaged");
});

test("a missing directory is reported as such", async () => {
  const error = await refusal(openSqliteStore({ path: join(directory.path, "missing", "store.sqlite") }));
  expect(error.message).toContain("cannot be opened");
});

test("a trigger protects a terminal record from a statement without its condition", async () => {
  await using store = await openSqliteStore({ path });
  const lease = await store.insertRun(newRun(), LEASE_MS);
  await store.saveRun(lease, EXITED);
  for (const column of ["state = 'running'", "exit_code = 0", "lease_epoch = 9"]) {
    expect(() => tamper(`update runs set ${column}`)).toThrow("an exited run never changes");
  }
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
    const error = await refusal(
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
    await refusal(store.saveRun(lease, EXITED, [newRunEvent("r")]));
    await truncate(filler, 0);
    expect(await store.saveRun(lease, EXITED, [newRunEvent("r")])).toBe(true);
    expect(await store.listEvents({})).toHaveLength(committed);
  });

  test("that is read-only, opening is refused and says so", async (context) => {
    if (whyNoMounts !== null) context.skip(whyNoMounts);
    await using disk = mountSmallDisk("512k");
    path = join(disk.path, "store.sqlite");
    await createStore();
    const error = await refusal(openSqliteStore({ path: join(disk.readOnlyPath, "store.sqlite") }));
    expect(error.message).toContain("read-only");
  });
});

describe("with other processes", () => {
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
    const error = await refusal(store.saveRun(lease, RUNNING, [newRunEvent("r")]));
    expect(error.message).toContain("stayed locked by another process");
    expect((await refusal(store.renewLeases("owner-a", LEASE_MS))).message).toContain("Try again");
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
    tamper("pragma journal_mode = wal");
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
    const refused = Promise.all(writes.map((write) => refusal(write)));
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
});
