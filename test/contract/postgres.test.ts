import { afterAll, beforeAll, describe } from "vitest";
import { TABLES } from "../../src/store/sql/migrations.js";
import {
  startPostgresServer,
  whyNoPostgres,
  type PostgresDatabase,
  type PostgresServer,
} from "../support/store/postgres-server.js";
import { storeContract } from "./store-contract.js";

describe.skipIf(whyNoPostgres !== null)("on a server of its own", () => {
  let server: PostgresServer;
  let database: PostgresDatabase;
  beforeAll(async () => {
    server = await startPostgresServer();
    database = await server.createDatabase();
    await (await database.open())[Symbol.asyncDispose]();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  // Emptied for each test. For a few rows, `delete` takes a fraction of the time of `truncate`.
  const emptyTables = [
    "set search_path = holdfast; set session_replication_role = replica",
    ...TABLES.map((table) => `delete from ${table}`),
    "select setval(oid::regclass, 1, false) from pg_class where relkind = 'S' and relnamespace = 'holdfast'::regnamespace",
  ].join("; ");
  storeContract("PostgreSQL", async () => {
    await database.query(emptyTables);
    return { open: (options) => database.open(options), [Symbol.asyncDispose]: async () => {} };
  });
});
