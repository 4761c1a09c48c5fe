import { afterAll, beforeAll, describe } from "vitest";
import { runContract, type TestDatabase } from "./run-contract.js";
import { messageContract } from "./message-contract.js";
import { commandContract } from "./command-contract.js";
import { gatewayContract } from "./gateway-contract.js";
import { acpContract } from "./acp-contract.js";
import { outboxContract } from "./outbox-contract.js";
import { sessionContract } from "./session-contract.js";
import { taskContract } from "./task-contract.js";
import {
  startPostgresServer,
  whyNoPostgres,
  type PostgresDatabase,
  type PostgresServer,
} from "../support/store/postgres-server.js";

describe.skipIf(whyNoPostgres !== null)("on a server of its own", () => {
  let server: PostgresServer;
  let shared: PostgresDatabase;
  let count = 0;
  beforeAll(async () => {
    server = await startPostgresServer();
    shared = await server.createDatabase();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  // Each test has a schema of its own: they must not see each other, and it is made in a fraction of a database's time.
  const schema = async () => {
    count += 1;
    const name = `store_${count}`;
    return {
      open: (options = {}) => shared.open({ ...options, schema: name }),
      [Symbol.asyncDispose]: async () => {},
    } satisfies TestDatabase;
  };
  runContract("PostgreSQL", schema);
  sessionContract("PostgreSQL", schema);
  gatewayContract("PostgreSQL", schema);
  commandContract("PostgreSQL", schema);
  messageContract("PostgreSQL", schema);
  acpContract("PostgreSQL", schema);
  taskContract("PostgreSQL", schema);
  outboxContract("PostgreSQL", schema);
});
