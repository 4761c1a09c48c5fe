import { afterAll, beforeAll, describe } from "vitest";
import { soak } from "../../support/scale.js";
import { type PgBouncer, startPgBouncer, whyNoPooler } from "../../support/store/postgres-pooler.js";
import { startReplicatedServer } from "../../support/store/postgres-replication.js";
import { postgresForSuite, whyNoPostgres } from "../../support/store/postgres-server.js";
import { postgresRecords, type RecordAccess, sqliteRecords } from "../../support/supervisor/record-access.js";
import { allCases, someCases, supervisorCases } from "./crash-cases.js";
import { crashMatrix } from "./crash-matrix.js";

crashMatrix("the state directory", async () => sqliteRecords, soak ? allCases : someCases);

describe.skipIf(whyNoPostgres !== null)("with a database,", () => {
  const server = postgresForSuite();

  // A killed or stopped anchor is the same with either store. The steps are those around a statement.
  crashMatrix(
    "PostgreSQL",
    async () => postgresRecords(await server.createDatabase()),
    soak
      ? allCases
      : supervisorCases(
          ...["spawn: committed", "finalize: end-saving", "steal: stealing"],
          ...["take-up by a replacement gateway: stolen", "sweep after a steal: end-saving"],
        ),
  );

  describe.skipIf(whyNoPooler !== null)("through a pooler,", () => {
    let pooler: PgBouncer;
    beforeAll(async () => {
      pooler = await startPgBouncer(server, { pool_mode: "session" });
    });
    afterAll(() => pooler[Symbol.asyncDispose]());

    crashMatrix(
      "PostgreSQL through PgBouncer",
      async () => {
        const { url } = await server.createDatabase();
        return postgresRecords({ url: pooler.urlOf(url) }, () => url);
      },
      soak ? supervisorCases() : supervisorCases("steal: stolen"),
    );
  });

  // Each case has a primary and a stand-by of its own.
  const overPromotedStandBy = async (): Promise<RecordAccess> => {
    const replicated = await startReplicatedServer();
    const database = await replicated.createDatabase();
    let at = replicated.primary;
    return {
      ...postgresRecords(
        database,
        () => `postgres://postgres@localhost/${database.name}?host=${at.directory}`,
      ),
      async struck() {
        await replicated.failOver();
        at = replicated.standBy;
      },
      async dispose() {
        await replicated[Symbol.asyncDispose]();
      },
    };
  };
  crashMatrix(
    "PostgreSQL whose primary is killed and whose stand-by is promoted",
    overPromotedStandBy,
    soak ? supervisorCases() : supervisorCases("end after a steal: end-saving"),
  );
});
