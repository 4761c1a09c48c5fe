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

  // Emptied for each test, which takes a fraction of the time of creating tables.
  storeContract("PostgreSQL", async () => {
    await database.query(`set search_path = holdfast; truncate ${TABLES.join(", ")} restart identity`);
    return { open: (options) => database.open(options), [Symbol.asyncDispose]: async () => {} };
  });
});
