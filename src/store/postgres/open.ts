import type { Pool } from "pg";
import type { MigrationMode } from "../../config/database-url.js";
import { parsePostgresUrl, type PostgresAddress } from "../../config/postgres-url.js";
import { defaults } from "../../defaults.js";
import { composeReadStore, composeStore } from "../sql/compose.js";
import { migrationStatus, type MigrationStatus } from "../sql/migrations.js";
import type { ReadStore, Store, StoreCheck } from "../store.js";
import { PostgresEngine } from "./engine.js";
import { translatePostgresError } from "./errors.js";
import {
  appliedPostgresMigrations,
  hasCurrentSchema,
  migratePostgres,
  postgresStoreLabel,
  requireMigratedSchema,
} from "./migrate.js";
import { openPool, ServerGenerations } from "./pool.js";

type PostgresReadOptions = Omit<PostgresStoreOptions, "eventsKept" | "migrate">;

interface PostgresReadPool {
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

/** Counts the records; changes nothing. Null: there is no schema yet. The server itself checks for damage. */
export async function checkPostgresStore(options: PostgresReadOptions): Promise<StoreCheck | null> {
  const readPool = await openReadPool(options);
  if (readPool === null) return null;
  const { pool, address } = readPool;
  try {
    const { rows } = await pool.query<Record<"schema" | "open" | "ended" | "events" | "most", number>>(`select
      (select max(id) from holdfast_migrations) as schema,
      (select count(*) from runs where state <> 'exited') as open,
      (select count(*) from runs where state = 'exited') as ended,
      (select count(*) from run_events) as events,
      (select max(kept) from (select count(*) as kept from run_events group by state_id) as each) as most`);
    const { schema = 0, open = 0, ended = 0, events = 0, most } = rows[0] ?? {};
    return { schema, damage: null, runs: { open, ended }, events, mostEvents: most ?? 0, logBytes: 0 };
  } catch (error) {
    throw translatePostgresError(error, address, "executing");
  } finally {
    await pool.end();
  }
}

/** The schema version and migrations of the store. Changes nothing. */
export async function postgresMigrationStatus({
  url,
  schema,
  ...session
}: PostgresReadOptions): Promise<MigrationStatus> {
  const address = parsePostgresUrl(url, schema);
  const pool = openPool(address, { ...session, readOnly: true });
  try {
    return migrationStatus(postgresStoreLabel(address), await appliedPostgresMigrations(pool, address));
  } catch (error) {
    throw translatePostgresError(error, address, "connecting");
  } finally {
    await pool.end();
  }
}
