import { describe } from "vitest";
import { startPooler, whyNoPooler } from "../store/postgres/pooler.js";
import { startReplicatedServer } from "../store/postgres/replicated.js";
import { startServer, whyNoPostgres } from "../store/postgres/server.js";
import { crashSuite, soak, type CrashStore } from "./crash.js";

/** In an ordinary run each step once: what a worker does is the same with either store. */
const rounds = soak ? 30 : 1;

async function throughPooler(): Promise<CrashStore> {
  const server = await startServer();
  const pooler = await startPooler(server, { pool_mode: "session" });
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

async function overPromotedStandBy(): Promise<CrashStore> {
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
  crashSuite("records in PostgreSQL through PgBouncer", { store: throughPooler, lanes: 1, rounds });
});

describe.skipIf(whyNoPostgres !== null)("with a stand-by,", () => {
  const suite = { store: overPromotedStandBy, lanes: 1, rounds };
  crashSuite("records in PostgreSQL whose primary is killed and whose stand-by is promoted", suite);
});
