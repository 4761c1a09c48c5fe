import { Client } from "pg";
import { beforeEach, describe, expect, test } from "vitest";
import { deferred } from "../../../src/async/deferred.js";
import { EventWatch } from "../../../src/store/postgres/listen-notify.js";
import { openPostgresStore, openPostgresStoreForReading } from "../../../src/store/postgres/open.js";
import { readServerInfo } from "../../../src/store/postgres/server-properties.js";
import { scaled } from "../../support/scale.js";
import { startPgBouncer, whyNoPooler } from "../../support/store/postgres-pooler.js";
import {
  type PostgresDatabase,
  postgresForSuite,
  storeUnusable,
} from "../../support/store/postgres-server.js";
import { EXITED, LEASE_MS, newRun, newRunEvent } from "../../support/store/run-samples.js";

describe.skipIf(whyNoPooler !== null)("a PostgreSQL store behind PgBouncer", () => {
  const server = postgresForSuite();
  let database: PostgresDatabase;
  beforeEach(async () => {
    database = await server.createDatabase();
  });

  const everyOpening = (url: string): readonly (() => Promise<unknown>)[] => [
    () => openPostgresStore({ url, name: "test" }),
    () => openPostgresStoreForReading({ url, name: "test" }),
    () => readServerInfo(url),
  ];

  test("session pooling works: migrations, writes, reads, and events that wake listeners", async () => {
    await using pooler = await startPgBouncer(server, { pool_mode: "session" });
    const url = pooler.urlOf(database.url);
    await using store = await database.open({ url, name: "in_7" });
    const woken = deferred<void>();
    let listening = false;
    await using _watch = new EventWatch(
      { url, name: "test" },
      (hint) => {
        // The first call says that it listens.
        if (hint === null) listening = true;
        else woken.resolve();
      },
      3_600_000,
    );
    await expect.poll(() => listening).toBe(true);
    const lease = await store.insertRun(newRun(), LEASE_MS, [newRunEvent("r")]);
    await woken.promise;
    await store.saveRun(lease, EXITED, [newRunEvent("r")]);
    await using reader =
      (await openPostgresStoreForReading({ url, name: "reader" })) ?? expect.fail("no store");
    expect(await reader.getRun(lease.runId)).toMatchObject({ state: "exited" });
    expect(await reader.listEvents({})).toHaveLength(2);
    expect(await readServerInfo(url)).toMatchObject({ writable: true, standby: false });
    const names = await database.query(
      "select distinct application_name as name from pg_stat_activity where application_name like 'holdfast/in_%'",
    );
    expect(names).toEqual([{ name: "holdfast/in_7" }]);
  });

  test("a session's settings apply to every connection, and none is left to the next client", async () => {
    await using pooler = await startPgBouncer(server, { pool_mode: "session", server_reset_query: "''" });
    const url = pooler.urlOf(database.url);
    // Without a reset query, prepared statements of the former client are still there.
    for (let round = 0; round < 3; round += 1) {
      await using store = await database.open({ url });
      await Promise.all(
        Array.from({ length: 20 }, () => store.insertRun(newRun(), LEASE_MS, [newRunEvent("r")])),
      );
      await using reader =
        (await openPostgresStoreForReading({ url, name: "reader" })) ?? expect.fail("no store");
      expect(await reader.listRuns({})).toHaveLength(20 * (round + 1));
    }
  });

  test.each([
    { pool_mode: "transaction", default_pool_size: 1 },
    { pool_mode: "transaction", default_pool_size: 20 },
    { pool_mode: "transaction", default_pool_size: 2, min_pool_size: 2, server_round_robin: 1 },
    { pool_mode: "transaction", default_pool_size: 7, min_pool_size: 7, server_round_robin: 1 },
    { pool_mode: "statement", default_pool_size: 5 },
  ])(
    "$pool_mode pooling is refused, says what to change, and leaves no settings behind: %o",
    async (mode) => {
      await (await database.open())[Symbol.asyncDispose]();
      await using pooler = await startPgBouncer(server, mode);
      const url = pooler.urlOf(database.url);
      // Another program that uses the same pool, so that it has connections already.
      const other = new Client(url);
      await other.connect();
      await other.query("select 1");
      for (const open of everyOpening(url))
        expect(await storeUnusable(open())).toMatchObject({
          code: "STATE_UNUSABLE",
          message: expect.stringContaining("pool_mode = session"),
        });
      const settings = ["search_path", "statement_timeout", "default_transaction_read_only"];
      const shown: unknown[] = [];
      for (const name of settings)
        shown.push(...(await other.query<Record<string, string>>(`show ${name}`)).rows);
      expect(shown).toEqual([
        { search_path: '"$user", public' },
        { statement_timeout: "0" },
        { default_transaction_read_only: "off" },
      ]);
      await other.end();
    },
  );

  test("transaction pooling is detected while other programs are busy in the same pool", async () => {
    await (await database.open())[Symbol.asyncDispose]();
    await using pooler = await startPgBouncer(server, { pool_mode: "transaction", default_pool_size: 5 });
    const url = pooler.urlOf(database.url);
    let busy = true;
    const others = Array.from({ length: 4 }, async () => {
      const other = new Client(url);
      await other.connect();
      while (busy) await other.query("select pg_sleep(random() * 0.002)");
      await other.end();
    });
    for (let attempt = 0; attempt < 20; attempt += 1)
      expect((await storeUnusable(openPostgresStore({ url, name: "test" }))).message).toContain(
        "pool_mode = session",
      );
    busy = false;
    await Promise.all(others);
  });

  test("errors of PgBouncer become messages that say what to change, without the password", async () => {
    const opened = async (settings: Record<string, string | number>, change: (url: string) => string) => {
      await using pooler = await startPgBouncer(server, { pool_mode: "session", ...settings });
      const url = change(pooler.urlOf(database.url)).replace("postgres@", "postgres:hunter2@");
      const error = await storeUnusable(openPostgresStore({ url, name: "test", busyMs: 2_000 }));
      expect(error.message).not.toContain("hunter2");
      return error;
    };
    expect(await opened({ max_client_conn: 0 }, (url) => url)).toMatchObject({
      code: "STORE_AWAY",
      message: expect.stringContaining("max_client_conn"),
    });
    expect(await opened({}, (url) => url.replace("postgres@", "nobody@"))).toMatchObject({
      code: "STATE_UNUSABLE",
      message: expect.stringContaining("refuses this user"),
    });
    expect(await opened({}, (url) => url.replace(database.name, "missing"))).toMatchObject({
      message: expect.stringContaining("does not exist"),
    });
    expect(await opened({ default_pool_size: 1 }, (url) => url)).toMatchObject({
      code: "STORE_AWAY",
      message: expect.stringContaining("default_pool_size"),
    });
  });

  test("a server that PgBouncer cannot reach is an outage, and is used again when it is back", async () => {
    await using pooler = await startPgBouncer(server, { pool_mode: "session" });
    const url = pooler.urlOf(database.url);
    // PgBouncer answers within a second.
    const busyMs = scaled(1_500);
    await using store = await database.open({ url, busyMs });
    await server.kill();
    try {
      const refused = await storeUnusable(store.insertRun(newRun(), LEASE_MS));
      expect(refused.code).toBe("STORE_AWAY");
      const again = await storeUnusable(openPostgresStore({ url, name: "test", busyMs }));
      expect(again).toMatchObject({
        code: "STORE_AWAY",
        message: expect.stringContaining("pooler"),
      });
    } finally {
      await server.start();
    }
    await expect
      .poll(
        () =>
          store.insertRun(newRun(), LEASE_MS).then(
            () => true,
            () => false,
          ),
        { timeout: 20_000 },
      )
      .toBe(true);
  });
});
