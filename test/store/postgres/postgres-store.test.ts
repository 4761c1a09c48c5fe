import { afterAll, beforeAll, describe } from "vitest";
import { storeContract } from "../contract.js";
import { sessionContract } from "../session-contract.js";
import { startServer, whyNoPostgres, type PostgresDatabase, type TestServer } from "./server.js";

describe.skipIf(whyNoPostgres !== null)("on a server of its own", () => {
  let server: TestServer;
  let made: PostgresDatabase;
  beforeAll(async () => {
    server = await startServer();
    made = await server.createDatabase();
    await (await made.open())[Symbol.asyncDispose]();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  // A copy: making the tables is another test's subject.
  const database = () => server.createDatabase(made.name);
  storeContract("PostgreSQL", database);
  sessionContract("PostgreSQL", database);
});
