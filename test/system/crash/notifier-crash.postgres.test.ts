import { describe } from "vitest";
import { startPgBouncer, whyNoPooler } from "../../support/store/postgres-pooler.js";
import { startReplicatedServer } from "../../support/store/postgres-replication.js";
import { startPostgresServer, whyNoPostgres } from "../../support/store/postgres-server.js";
import { notifierCrashSuite, soak, type NotifierCrashStore } from "./notifier-crash.js";

/** In an ordinary run each step once: what a worker does is the same with either store. */
const rounds = soak ? 30 : 1;

async function throughPooler(): Promise<NotifierCrashStore> {
  const server = await startPostgresServer();
  const pooler = await startPgBouncer(server, { pool_mode: "session" });
  const database = await server.createDatabase();
  const url = pooler.urlOf(database.url);
  return {
    place: url,
    open: () => database.open({ url }),
    async [Symbol.asyncDispose]() {
      await pooler[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

async function overPromotedStandBy(): Promise<NotifierCrashStore> {
  const server = await startReplicatedServer();
  const database = await server.createDatabase();
  return {
    place: database.url,
    open: () => database.open(),
    halfway: () => server.failOver(),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

describe.skipIf(whyNoPooler !== null)("with a pooler,", () => {
  notifierCrashSuite("records in PostgreSQL through PgBouncer", { store: throughPooler, lanes: 1, rounds });
});

describe.skipIf(whyNoPostgres !== null)("with a stand-by,", () => {
  const suite = { store: overPromotedStandBy, lanes: 1, rounds };
  notifierCrashSuite("records in PostgreSQL whose primary is killed and whose stand-by is promoted", suite);
});
