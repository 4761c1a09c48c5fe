import { defaults } from "../../defaults.js";
import { SqlStore } from "../runs/writes.js";
import type { Store } from "../store.js";
import { translatePostgresError } from "./errors.js";
import type { MigrationMode } from "../../config/database-url.js";
import { migratePostgres, requireMigratedSchema } from "./migrate.js";
import { openPool } from "./pool.js";
import { ServerGenerations, PostgresEngine } from "./engine.js";
import { parsePostgresUrl } from "../../config/postgres-url.js";

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
  const ensureSchema = mode === "auto" ? migratePostgres : requireMigratedSchema;
  const address = parsePostgresUrl(options.url, options.schema);
  const generations = new ServerGenerations();
  const pool = openPool(address, { name, readOnly: false, busyMs }, generations.observe);
  try {
    const client = await pool.connect();
    try {
      await ensureSchema(client, address);
    } catch (error) {
      client.release(true);
      throw error;
    }
    client.release();
    return new SqlStore(
      new PostgresEngine(pool, address, { bringUpToDate: ensureSchema, met: generations }),
      eventsKept,
    );
  } catch (error) {
    await pool.end();
    throw translatePostgresError(error, address, "connecting");
  }
}
