import { afterAll, beforeAll, describe } from "vitest";
import { soak } from "../../support/scale.js";
import { type PgBouncer, startPgBouncer, whyNoPooler } from "../../support/store/postgres-pooler.js";
import { startReplicatedServer } from "../../support/store/postgres-replication.js";
import {
  type PostgresServer,
  startPostgresServer,
  whyNoPostgres,
} from "../../support/store/postgres-server.js";
import { postgresRecords, type RecordAccess } from "../../support/supervisor/record-access.js";
import { crashMatrix } from "./crash-matrix.js";

describe.skipIf(whyNoPostgres !== null)("with a database,", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgresServer();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  // What happens when an anchor dies or stops is the same with either store: all of it in a soak run.
  crashMatrix(
    "PostgreSQL",
    async () => postgresRecords(await server.createDatabase()),
    ({ anchor, stopped }) => soak || (!anchor && stopped !== true),
  );

  describe.skipIf(whyNoPooler !== null)("through a pooler,", () => {
    let pooler: PgBouncer;
    beforeAll(async () => {
      pooler = await startPgBouncer(server, { pool_mode: "session" });
    });
    afterAll(() => pooler[Symbol.asyncDispose]());

    /** Steps at which a statement was sent, or its answer is outstanding. */
    const some = ["committed", "end-saving", "stolen"];
    crashMatrix(
      "PostgreSQL through PgBouncer",
      async () => {
        const { url } = await server.createDatabase();
        return postgresRecords({ url: pooler.urlOf(url) }, () => url);
      },
      ({ anchor, stopped, name }, phase, step) =>
        soak
          ? !anchor
          : stopped !== true &&
            name === "the supervisor" &&
            phase !== "sweep after a steal" &&
            some.includes(step),
    );
  });

  // Each has a primary and a stand-by of its own: one of each kind, and all in a soak run.
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
    ({ anchor, stopped, name }, phase, step) =>
      !anchor &&
      stopped !== true &&
      name === "the supervisor" &&
      (soak || `${phase} ${step}` === "run at rest" || `${phase} ${step}` === "steal stolen"),
  );
});
