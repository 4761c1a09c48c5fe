import { startPostgresServer, type PostgresDatabase, type PostgresServer } from "./postgres-server.js";
import { waitFor } from "../wait-for.js";

/** A primary and its stand-by, with synchronous replication. */
export interface ReplicatedServer extends AsyncDisposable {
  readonly primary: PostgresServer;
  readonly standBy: PostgresServer;
  /** A database whose address names both hosts. */
  createDatabase(): Promise<PostgresDatabase>;
  /** Kills the primary and promotes the stand-by. */
  failOver(): Promise<void>;
}

export async function startReplicatedServer(): Promise<ReplicatedServer> {
  const primary = await startPostgresServer(null, { replicated: true });
  const standBy = await startPostgresServer(null, { standByOf: primary });
  const both = `${primary.directory},${standBy.directory}`;
  const admin = await primary.createDatabase();
  await admin.query("alter system set synchronous_standby_names = '*'");
  await admin.query("select pg_reload_conf()");
  await waitFor("the stand-by is synchronous", async () => {
    const rows = await admin.query("select 1 from pg_stat_replication where sync_state = 'sync'");
    return rows.length > 0;
  });
  let failed = false;
  return {
    primary,
    standBy,
    async createDatabase() {
      const made = await primary.createDatabase();
      const url = made.url.replace(primary.directory, both);
      return {
        ...made,
        url,
        open: (more = {}) => made.open({ url, ...more }),
        query: (text) => (failed ? standBy : primary).query(made.name, text),
      };
    },
    async failOver() {
      await primary.kill();
      await standBy.promote();
      failed = true;
    },
    async [Symbol.asyncDispose]() {
      await standBy[Symbol.asyncDispose]();
      await primary[Symbol.asyncDispose]();
    },
  };
}
