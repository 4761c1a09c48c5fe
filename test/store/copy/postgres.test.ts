import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { TABLES } from "../../../src/store/sql/migrations.js";
import { openSqliteStore } from "../../../src/store/sqlite/open.js";
import { startChild } from "../../support/store/child-process.js";
import { newGateway } from "../../contract/gateway-contract.js";
import { startCuttableProxy } from "../../support/store/postgres-proxy.js";
import {
  postgresForSuite,
  whyNoPostgres,
  type PostgresDatabase,
} from "../../support/store/postgres-server.js";
import { LEASE_MS, newRun, newRunEvent } from "../../support/store/run-samples.js";
import { copy, createFilledStore, dumpStore, EVENT_COUNT } from "./filled-store.js";

describe.skipIf(whyNoPostgres !== null)("SQLite and PostgreSQL", () => {
  const server = postgresForSuite();
  let database: PostgresDatabase;
  let home: string;
  let path: string;
  beforeEach(async () => {
    ({ home, path } = await createFilledStore());
    database = await server.createDatabase();
  });

  const countsIn = () =>
    database.query(
      "select (select count(*) from holdfast.runs)::int as runs, (select count(*) from holdfast.run_events)::int as events",
    );

  test("the list of tables is complete in each database", async () => {
    await using _ = await database.open();
    const rows = await database.query(
      "select tablename as name from pg_tables where schemaname = 'holdfast'",
    );
    const names = rows.map(({ name }) => String(name)).filter((name) => name !== "holdfast_migrations");
    expect(names.toSorted()).toEqual(TABLES.toSorted());
    expect(new Set(TABLES).size).toBe(TABLES.length);
  });

  test("a copy to the other database and back keeps the records, the numbering and the leases", async () => {
    await copy(path, database.url, { home: home });
    await using source = await openSqliteStore({ path });
    const before = await dumpStore(source);
    {
      await using there = await database.open();
      // PostgreSQL text cannot contain NUL.
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
    const back = join(home, "back.sqlite");
    await copy(database.url, back, { home: home });
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

  test("a backup of the database in use keeps the local copy; a copy to the database in use deletes it", async () => {
    const [inUse, backup] = [database, await server.createDatabase()];
    const localCopy = join(home, "ledger");
    await mkdir(localCopy);
    vi.stubEnv("HOLDFAST_DATABASE_URL", inUse.url);
    await copy(path, inUse.url, { home: home });
    expect(existsSync(localCopy)).toBe(false);
    await mkdir(localCopy);
    await copy(inUse.url, backup.url, { home: home });
    expect(existsSync(localCopy)).toBe(true);
  });

  test("a copy is refused while a supervisor is connected or another host holds a lease; both are named", async () => {
    {
      await using idle = await database.open({ name: "in_idle" });
      await idle.now();
      await expect(copy(path, database.url)).rejects.toThrow("supervisor in_idle is connected");
      await idle.insertRun(newRun({ ownerInstanceId: "in_away", hostId: "far" }), LEASE_MS);
      await idle.registerGateway(newGateway({ instanceId: "in_calm", hostName: "bob" }));
    }
    await expect(copy(database.url, join(home, "x.sqlite"))).rejects.toThrow(
      /supervisor in_away of host far holds 1 open runs.*gateway in_calm of host bob sent a heartbeat/,
    );
  });

  test("a copy that is killed or disconnected at any point leaves the database empty or complete", async () => {
    await using child = startChild("copy-and-die", resolve("dist"), path, database.url, "3");
    expect(await child.ended).toBeNull();
    expect(await countsIn()).toEqual([{ runs: 0, events: 0 }]);
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
      const [counts] = await countsIn();
      done = counts?.["runs"] !== 0;
      expect(counts).toEqual(done ? { runs: 2, events: EVENT_COUNT } : { runs: 0, events: 0 });
      if (happened) expect(outcome).not.toBeNull();
    }
    await expect(copy(path, database.url)).rejects.toThrow("already has records");
  });

  test("a copy that reads back differently is rolled back", async () => {
    await (await database.open())[Symbol.asyncDispose]();
    await database.query(
      `create function holdfast.spoil() returns trigger language plpgsql as $$ begin new.cwd := 'elsewhere'; return new; end $$;
       create trigger spoil before insert on holdfast.runs for each row execute function holdfast.spoil()`,
    );
    await expect(copy(path, database.url)).rejects.toThrow("the table runs was read back with 2 rows");
    expect(await countsIn()).toEqual([{ runs: 0, events: 0 }]);
  });
});
