import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { deferred } from "../../../src/async/deferred.js";
import { parsePostgresUrl } from "../../../src/config/postgres-url.js";
import { BadInput } from "../../../src/errors.js";
import { EventWatch } from "../../../src/store/postgres/events.js";
import {
  openPostgresStore,
  openPostgresStoreForReading,
  openReadPool,
} from "../../../src/store/postgres/open.js";
import { migrations } from "../../../src/store/sql/migrations.js";
import {
  type PostgresDatabase,
  type PostgresServer,
  startPostgresServer,
  storeUnusable,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import { EXITED, forbiddenUpdates, LEASE_MS, newRun, newRunEvent } from "../../support/store/run-samples.js";
import { AT, newApproval, newSession } from "../../support/store/session-samples.js";

const newest = migrations.at(-1)?.id ?? 0;

/** As the store was before runs knew their sessions; what depends on the columns goes with them. */
const BEFORE_SESSIONS_OF_RUNS = `
  alter table holdfast.run_events drop column state_id;
  drop table holdfast.commands, holdfast.hosts, holdfast.gateways;
  alter table holdfast.runs drop column session_id cascade, drop column hidden_at cascade, drop column state_id,
    drop column time_namespace;
  create trigger runs_exited_is_final before update on holdfast.runs for each row when (old.state = 'exited')
  execute function holdfast.refuse_update('an exited run never changes');
  delete from holdfast.holdfast_migrations where id between 7 and 10 or id = 14;`;

describe.skipIf(whyNoPostgres !== null)("a PostgreSQL store", () => {
  let server: PostgresServer;
  let database: PostgresDatabase;
  beforeAll(async () => {
    server = await startPostgresServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());
  beforeEach(async () => {
    database = await server.createDatabase();
  });

  const create = async (): Promise<void> => (await database.open())[Symbol.asyncDispose]();
  const openForReading = () => openPostgresStoreForReading({ url: database.url, name: "reader" });

  test("ten processes that open an empty database at once create one schema", async () => {
    const stores = await Promise.all(Array.from({ length: 10 }, () => database.open()));
    await Promise.all(stores.map((store, at) => store.appendEvents([newRunEvent(`r${at}`)])));
    expect(await stores[0]?.listEvents({})).toHaveLength(10);
    const applied = await database.query("select id, name from holdfast.holdfast_migrations order by id");
    expect(applied).toEqual(migrations.map(({ id, name }) => ({ id: String(id), name })));
    await Promise.all(stores.map((store) => store[Symbol.asyncDispose]()));
  });

  test("a migration that fails is rolled back", async () => {
    // In the way of the last step only.
    await database.query("create schema holdfast; create view holdfast.sessions as select 1 as one");
    await expect(database.open()).rejects.toThrow(/sessions/);
    expect(await database.query("select tablename from pg_tables where schemaname = 'holdfast'")).toEqual([]);
    await database.query("drop view holdfast.sessions");
    await create();
  });

  test("a user without the right to use the schema is told that, not that there are no tables", async () => {
    await create();
    await database.query("create role stranger login");
    const url = database.url.replace("postgres@", "stranger@");
    for (const open of [openPostgresStore, openPostgresStoreForReading]) {
      const { message } = await storeUnusable(open({ url, name: "test" }));
      expect(message).toContain("has no right to use it");
    }
  });

  test("a store written by a newer version is refused, says what to do, and is left alone", async () => {
    await create();
    await database.query(
      "insert into holdfast.holdfast_migrations (id, name, applied_at) values (9999, 'from the future', 0)",
    );
    for (const open of [() => database.open(), openForReading]) {
      const { message } = await storeUnusable(open());
      expect(message).toContain(`newer Holdfast (schema 9999, this one knows ${newest})`);
      expect(message).toContain("Upgrade Holdfast");
    }
  });

  test("a schema left by an older version is completed by a writer and refused by a reader", async () => {
    await create();
    await database.query(`${BEFORE_SESSIONS_OF_RUNS}
      alter table holdfast.runs drop column service, drop column limits, drop column exit_limit;
      drop table holdfast.task_outbox, holdfast.task_events, holdfast.tasks, holdfast.acp_permissions, holdfast.acp_updates, holdfast.acp_turns, holdfast.acp_sessions,
        holdfast.session_messages, holdfast.approvals, holdfast.session_tokens, holdfast.sessions;
      drop index holdfast.runs_of_session; delete from holdfast.holdfast_migrations where id >= 4;
      alter table holdfast.holdfast_migrations drop column min_compatible`);
    expect((await storeUnusable(openForReading())).message).toContain(
      `older Holdfast (schema 3, this one reads ${newest})`,
    );
    await using store = await database.open();
    expect(await store.createSession(newSession())).toMatchObject({ created: true });
  });

  test("runs of an older release get the session that had their key when they started", async () => {
    const first = newSession({ key: "k", createdAt: 100, lineage: [] });
    const second = newSession({ key: "k", createdAt: 300, lineage: [] });
    const runs = [50, 150, 250, 350].map((createdAt) => newRun({ sessionKey: "k", createdAt }));
    {
      await using store = await database.open();
      await store.createSession(first);
      await store.closeSession(first.id, "a", 200);
      await store.createSession(second);
      for (const run of runs) await store.saveRun(await store.insertRun(run, LEASE_MS), EXITED);
    }
    await database.query(BEFORE_SESSIONS_OF_RUNS);
    await using store = await database.open();
    const ids = await Promise.all(runs.map(async ({ runId }) => (await store.getRun(runId))?.sessionId));
    expect(ids).toEqual([null, first.id, null, second.id]);
    expect(await store.listHosts()).toMatchObject([{ hostId: runs[0]?.hostId, name: "" }]);
  });

  test("events of an older release get the state directory of their runs", async () => {
    {
      await using store = await database.open();
      for (const stateId of ["one", "two", null]) {
        const run = newRun({ runId: `run_${stateId}`, stateId });
        await store.insertRun(run, LEASE_MS, [newRunEvent(run.runId)]);
      }
      await store.appendEvents([newRunEvent("gone")]);
    }
    await database.query(`alter table holdfast.run_events drop column state_id;
      drop index holdfast.runs_open_of_state;
      delete from holdfast.holdfast_migrations where id = 10`);
    await using store = await database.open();
    expect(await store.listEvents({ stateId: "one" })).toMatchObject([{ runId: "run_one" }]);
    expect(await store.listEvents({})).toHaveLength(4);
  });

  test("an ended run can be hidden, and nothing else of it can change", async () => {
    await using store = await database.open();
    await store.saveRun(await store.insertRun(newRun(), LEASE_MS), EXITED);
    const update = (change: string) => database.query(`update holdfast.runs set ${change}`);
    const columns = (await database.query(
      "select column_name as name, data_type as type from information_schema.columns where table_schema = 'holdfast' and table_name = 'runs'",
    )) as { name: string; type: string }[];
    expect(columns.length).toBeGreaterThan(50);
    const different = columns.map(({ name, type }): [string, string] => [
      name,
      type === "text" ? `coalesce(${name}, '') || 'x'` : `coalesce(${name}, 0) + 1`,
    ]);
    for (const change of forbiddenUpdates(new Map(different)))
      await expect(update(change), change).rejects.toThrow("an exited run never changes");
    await update("hidden_at = 1");
    await expect(update("hidden_at = 2")).rejects.toThrow("an exited run never changes");
  });

  test("another program's schema is refused, and tables of the same names elsewhere are left alone", async () => {
    await database.query("create table public.runs as select 'theirs' as run_id");
    await using store = await database.open();
    await store.saveRun(await store.insertRun(newRun(), LEASE_MS), EXITED);
    expect(await store.listRuns({})).toHaveLength(1);
    expect(await database.query("select * from public.runs")).toEqual([{ run_id: "theirs" }]);
    expect((await storeUnusable(database.open({ schema: "public" }))).message).toContain(
      "some other program",
    );
  });

  test("the TLS settings of an address are understood, and never weakened", () => {
    const modeOf = (mode: string): string | null =>
      new URL(
        parsePostgresUrl(`postgres://u@one/db?uselibpqcompat=true&sslmode=${mode}`).hosts[0]?.url ?? "",
      ).searchParams.toString();
    for (const mode of ["prefer", "require", "verify-ca", "verify-full"])
      expect(modeOf(mode)).toBe("sslmode=verify-full&host=one");
    for (const mode of ["disable", "no-verify"]) expect(modeOf(mode)).toBe(`sslmode=${mode}&host=one`);
    for (const mode of ["hunter2", "", "constructor"]) {
      expect(() => modeOf(mode)).toThrow("must be one of disable, no-verify, prefer");
      expect(() => modeOf(mode)).not.toThrow("hunter2");
    }
  });

  test("a certificate that cannot be read is an error at once, not an outage", async () => {
    for (const file of ["sslrootcert=/nowhere.pem", "sslkey=/nowhere.pem", `sslcert=${server.directory}`]) {
      const url = `${database.url}&sslmode=require&${file}`;
      for (const open of [openPostgresStore, openPostgresStoreForReading])
        expect(await storeUnusable(open({ url, name: "test" }))).toMatchObject({
          code: "STATE_UNUSABLE",
          message: expect.stringContaining("Check sslrootcert, sslcert and sslkey"),
        });
    }
  });

  test("a listener for events waits for a missing certificate", async () => {
    const url = `${database.url}&sslmode=disable&sslrootcert=${join(server.directory, "later.pem")}`;
    await create();
    const woken = deferred<void>();
    await using _watch = new EventWatch({ url, name: "test" }, () => woken.resolve(), 3_600_000);
    await writeFile(join(server.directory, "later.pem"), "");
    await woken.promise;
  });

  test("a database that is replaced by an empty one under an open store gets its tables again", async () => {
    await using store = await database.open();
    await store.insertRun(newRun(), LEASE_MS, [newRunEvent("r")]);
    const { generation } = store;
    await database.query("drop schema holdfast cascade");
    expect(await store.listRuns({})).toEqual([]);
    await store.insertRun(newRun(), LEASE_MS, [newRunEvent("r")]);
    expect(await store.listEvents({})).toHaveLength(1);
    expect(store.generation).toBeGreaterThan(generation);
  });

  test("a database that disappears under an open store is unavailable; at the first opening its name is wrong", async () => {
    await using store = await database.open();
    await store.insertRun(newRun(), LEASE_MS);
    const beside = await server.createDatabase();
    await beside.query(`drop database ${database.name} with (force)`);
    expect(await storeUnusable(store.listRuns({}))).toMatchObject({ code: "STORE_AWAY" });
    expect(await storeUnusable(store.listRuns({}))).toMatchObject({ code: "STORE_AWAY" });
    expect(await storeUnusable(database.open())).toMatchObject({
      code: "STATE_UNUSABLE",
      message: expect.stringContaining("does not exist"),
    });
    await beside.query(`create database ${database.name}`);
    expect(await store.listRuns({})).toEqual([]);
  });

  test("a server that became a stand-by is unavailable until it accepts writes again", async () => {
    await using store = await database.open();
    await server.kill();
    await server.start({ standBy: true });
    try {
      expect(await storeUnusable(store.insertRun(newRun(), LEASE_MS))).toMatchObject({
        code: "STORE_AWAY",
        message: expect.stringContaining("a stand-by"),
      });
    } finally {
      await server.kill();
      await server.start();
    }
    await store.insertRun(newRun(), LEASE_MS);
  });

  test("two schemas of one database are two stores", async () => {
    await using one = await database.open();
    await using two = await database.open({ schema: "second" });
    await one.insertRun(newRun(), LEASE_MS, [newRunEvent("r")]);
    expect(await two.listRuns({})).toEqual([]);
    expect(await two.listEvents({})).toEqual([]);
    await expect(database.open({ schema: "a; drop" })).rejects.toBeInstanceOf(BadInput);
  });

  test("a reader changes nothing, and cannot", async () => {
    expect(await openForReading()).toBeNull();
    expect(await database.query("select 1 from pg_namespace where nspname = 'holdfast'")).toEqual([]);
    await using store = await database.open();
    const { runId } = await store.insertRun(newRun(), LEASE_MS, [newRunEvent("r")]);
    await using reader = (await openForReading()) ?? expect.fail("no store");
    expect(await reader.getRun(runId)).toMatchObject({ runId });
    expect(await reader.listEvents({})).toHaveLength(1);
    expect(reader).not.toHaveProperty("renewLeases");
    const { pool } = (await openReadPool({ url: database.url, name: "test" })) ?? expect.fail("no store");
    await expect(pool.query("delete from runs")).rejects.toMatchObject({ code: "25006" });
    await pool.end();
  });

  test("a user without the right to create tables gets an error; the owner of a schema can use it", async () => {
    await database.query("create role guest login");
    const url = database.url.replace("postgres@", "guest@");
    expect((await storeUnusable(database.open({ url }))).message).toContain(
      "does not permit this user to do that",
    );
    await database.query("create schema holdfast authorization guest");
    await using store = await database.open({ url });
    expect(await store.listRuns({})).toEqual([]);
  });

  test("a database that cannot hold every text is refused", async () => {
    await database.query(
      "create database latin encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0",
    );
    const url = database.url.replace(`/${database.name}?`, "/latin?");
    expect((await storeUnusable(database.open({ url }))).message).toContain("encoding LATIN1");
  });

  test("no error shows a password, however it is met", async () => {
    const secret = "hunter2%40x";
    const at = `host=${server.directory}`;
    const attempts = [
      `postgres://postgres:${secret}@localhost/missing?${at}`,
      `postgres://nobody:${secret}@localhost/${database.name}?${at}`,
      `postgres://postgres:${secret}@localhost:1/x`,
      `postgres://postgres:${secret}@localhost/x?host=/nowhere`,
      `postgres://postgres:${secret}@localhost/x?${at}&options=-c%20${secret}`,
      `postgres://postgres:${secret}@no such host/x`,
      `postgres://postgres:${secret}@localhost:port/x`,
      `mysql://postgres:${secret}@localhost/x`,
    ];
    for (const url of attempts) {
      const error: unknown = await openPostgresStore({ url, name: "test" }).then(
        () => expect.fail(`opened ${url}`),
        (reason: unknown) => reason,
      );
      expect(error).toMatchObject({ code: expect.stringMatching(/^(STATE_UNUSABLE|STORE_AWAY|BAD_INPUT)$/) });
      const everything = `${inspect(error, { depth: 9, showHidden: true })}${process.title}`;
      expect(everything).not.toMatch(/hunter2/);
    }
  });

  test("connections have names, and are few", async () => {
    await using store = await database.open({ name: "in_7" });
    await Promise.all(Array.from({ length: 50 }, () => store.insertRun(newRun(), LEASE_MS)));
    const names = await database.query(
      "select application_name as name from pg_stat_activity where application_name like 'holdfast/%' and datname = current_database()",
    );
    expect(names.length).toBeGreaterThan(0);
    expect(names.length).toBeLessThanOrEqual(4);
    expect(names.every(({ name }) => name === "holdfast/in_7")).toBe(true);
  });

  test("texts that the database cannot store are stored with replacement characters", async () => {
    await using store = await database.open();
    const labels = { "a\0b": "c\0d", "\ud800": "\\u0000" };
    const { runId } = await store.insertRun(newRun({ command: "x\0y \\u0000", labels }), LEASE_MS);
    await store.insertRun(newRun({ labels: { plain: "text" } }), LEASE_MS);
    const run = (await store.getRun(runId)) ?? expect.fail("no record");
    expect(run.command).toBe("x\ufffdy \\u0000");
    expect(run.labels).toEqual(labels);
    // One such record must not make the others unfindable.
    for (const [name, value] of [...Object.entries(labels), ["plain", "text"] as const])
      expect(await store.listRuns({ labels: { [name]: value } })).toHaveLength(1);
  });

  test(
    "a session that closes leaves no approval pending that was asked for meanwhile",
    { timeout: 90_000 },
    async () => {
      await using store = await database.open();
      await using other = await database.open();
      for (let round = 0; round < 40; round += 1) {
        const session = newSession();
        await store.createSession(session);
        const approvals = Array.from({ length: 3 }, () => newApproval(session.id));
        await Promise.all([
          ...approvals.map((approval) => other.insertApproval(approval)),
          store.closeSession(session.id, "a", AT),
        ]);
        expect(await store.listApprovals({ sessionId: session.id, pending: true })).toEqual([]);
      }
    },
  );

  test("a trigger protects the owner of a session from a statement without its condition", async () => {
    await using store = await database.open();
    await store.createSession(newSession());
    await expect(database.query("update holdfast.sessions set lineage = '[]'")).rejects.toThrow(
      "whose a session is never changes",
    );
  });
});
