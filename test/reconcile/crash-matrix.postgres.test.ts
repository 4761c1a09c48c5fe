import { afterAll, beforeAll, describe } from "vitest";
import { startServer, whyNoPostgres, type TestServer } from "../store/postgres/server.js";
import { crashMatrix, soak } from "./crash-matrix.js";
import { recordsIn } from "./records.js";

describe.skipIf(whyNoPostgres !== null)("with a database,", () => {
  let server: TestServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  // What an anchor does when it dies is the same with either store, and takes its time: all of it in a soak run.
  crashMatrix(
    "PostgreSQL",
    async () => recordsIn(await server.createDatabase()),
    ({ anchor }) => soak || !anchor,
  );
});
