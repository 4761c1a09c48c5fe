import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inspect } from "node:util";
import { beforeEach, describe, expect, test } from "vitest";
import { deferred } from "../../../src/async/deferred.js";
import { BadInput } from "../../../src/errors.js";
import { EventWatch } from "../../../src/store/postgres/listen-notify.js";
import {
  openPostgresStore,
  openPostgresStoreForReading,
  openReadPool,
} from "../../../src/store/postgres/open.js";
import {
  type PostgresDatabase,
  postgresForSuite,
  storeUnusable,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import { EXITED, LEASE_MS, newRun, newRunEvent } from "../../support/store/run-samples.js";
import { AT, newApproval, newSession } from "../../support/store/session-samples.js";

describe.skipIf(whyNoPostgres !== null)("a PostgreSQL store", () => {
  const server = postgresForSuite();
  let database: PostgresDatabase;
  beforeEach(async () => {
    database = await server.createDatabase();
  });

  const create = async (): Promise<void> => (await database.open())[Symbol.asyncDispose]();
  const openForReading = () => openPostgresStoreForReading({ url: database.url, name: "reader" });

  test("a user without the right to use the schema gets an error that says so", async () => {
    await create();
    await database.query("create role stranger login");
    const url = database.url.replace("postgres@", "stranger@");
    for (const open of [openPostgresStore, openPostgresStoreForReading]) {
      const { message } = await storeUnusable(open({ url, name: "test" }));
      expect(message).toContain("has no right to use it");
    }
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

  test("no error shows a password", async () => {
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

  test("no approval that is inserted while its session closes stays pending", async () => {
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
  });

  test("a trigger protects the owner of a session from a statement without its condition", async () => {
    await using store = await database.open();
    await store.createSession(newSession());
    await expect(database.query("update holdfast.sessions set lineage = '[]'")).rejects.toThrow(
      "whose a session is never changes",
    );
  });
});
