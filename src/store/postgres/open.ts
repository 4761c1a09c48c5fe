import type { Pool } from "pg";
import type { MigrationMode } from "../../config/database-url.js";
import { parsePostgresUrl, type PostgresAddress } from "../../config/postgres-url.js";
import { defaults } from "../../defaults.js";
import { composeReadStore, composeStore } from "../sql/compose.js";
import type { ReadStore, Store } from "../store.js";
import { PostgresEngine, ServerGenerations } from "./engine.js";
import { translatePostgresError } from "./errors.js";
import { hasCurrentSchema, migratePostgres, requireMigratedSchema } from "./migrate.js";
import { openPool } from "./pool.js";

export type PostgresReadOptions = Omit<PostgresStoreOptions, "eventsKept" | "migrate">;

export interface PostgresReadPool {
  readonly pool: Pool;
  readonly address: PostgresAddress;
}

/** Opens connections on which the server refuses every write. Null, and none left open: the store has no tables yet. */
export async function openReadPool({
  url,
  schema,
  ...session
}: PostgresReadOptions): Promise<PostgresReadPool | null> {
  const address = parsePostgresUrl(url, schema);
  const pool = openPool(address, { ...session, readOnly: true });
  try {
    if (await hasCurrentSchema(pool, address)) return { pool, address };
    await pool.end();
    return null;
  } catch (error) {
    await pool.end();
    throw translatePostgresError(error, address, "connecting");
  }
}

export interface PostgresStoreOptions {
  readonly url: string;
  /** The one schema whose tables are used. */
  readonly schema?: string;
  /** Shown by the server as the connection's name. */
  readonly name: string;
  readonly eventsKept?: number;
  readonly busyMs?: number;
  /** `manual`: an older schema is refused. */
  readonly migrate?: MigrationMode;
}

/** Opens the store for writing. Creates or migrates it as needed and allowed. */
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
    return composeStore(new PostgresEngine(pool, address, { ensureSchema, generations }), eventsKept);
  } catch (error) {
    await pool.end();
    throw translatePostgresError(error, address, "connecting");
  }
}

/** Opens the store for reading. Null: it has no tables yet. */
export async function openPostgresStoreForReading(options: PostgresReadOptions): Promise<ReadStore | null> {
  const readPool = await openReadPool(options);
  if (readPool === null) return null;
  return composeReadStore(new PostgresEngine(readPool.pool, readPool.address, { ensureSchema: null }));
}
