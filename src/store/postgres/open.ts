import { defaults } from "../../defaults.js";
import { SqlStore } from "../sql/sql-store.js";
import type { Store } from "../store.js";
import { translatePostgresError } from "./errors.js";
import type { MigrationMode } from "../database-address.js";
import { migrate, requireMigratedSchema } from "./migrate.js";
import { openPool } from "./pool.js";
import { Meetings, PostgresEngine } from "./postgres-engine.js";
import { parseTarget } from "./target.js";

export interface PostgresStoreOptions {
  readonly url: string;
  /** The one schema whose tables are used. */
  readonly schema?: string;
  /** Whose connections these are, for whoever looks at the server. */
  readonly name: string;
  readonly eventsKept?: number;
  readonly busyMs?: number;
  /** `manual`: an older schema is refused. */
  readonly migrate?: MigrationMode;
}

/** Open the store for a supervisor, creating it or bringing its schema up to date as needed and allowed. */
export async function openPostgresStore(options: PostgresStoreOptions): Promise<Store> {
  const { eventsKept = defaults.eventsKept, name, busyMs, migrate: mode = "auto" } = options;
  const bringUpToDate = mode === "auto" ? migrate : requireMigratedSchema;
  const target = parseTarget(options.url, options.schema);
  const met = new Meetings();
  const pool = openPool(target, { name, readOnly: false, busyMs }, met.note);
  try {
    const client = await pool.connect();
    try {
      await bringUpToDate(client, target);
    } catch (error) {
      client.release(true);
      throw error;
    }
    client.release();
    return new SqlStore(new PostgresEngine(pool, target, { bringUpToDate, met }), eventsKept);
  } catch (error) {
    await pool.end();
    throw translatePostgresError(error, target, "connecting");
  }
}
