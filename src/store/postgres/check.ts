import { parsePostgresUrl } from "../../config/postgres-url.js";
import { migrationStatus, type MigrationStatus } from "../sql/migrations.js";
import type { StoreCheck } from "../store.js";
import { translatePostgresError } from "./errors.js";
import { appliedPostgresMigrations, postgresStoreLabel } from "./migrate.js";
import { openReadPool, type PostgresReadOptions } from "./open.js";
import { openPool } from "./pool.js";

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
    throw translatePostgresError(error, address, "asking");
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
