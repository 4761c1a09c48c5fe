import type { StoreHealth } from "../sqlite/check.js";
import { statusOf, type MigrationStatus } from "../sql/migrations.js";
import { translatePostgresError } from "./errors.js";
import { appliedTo, placeOf } from "./migrate.js";
import { openPool } from "./pool.js";
import { openForReading, type ReadingOptions } from "./reading.js";
import { parseTarget } from "./target.js";

/** Count what is there, changing nothing. Null: there is no schema yet. Damage and disk are the server's to watch. */
export async function checkPostgresStore(options: ReadingOptions): Promise<StoreHealth | null> {
  const reading = await openForReading(options);
  if (reading === null) return null;
  const { pool, target } = reading;
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
    throw translatePostgresError(error, target, "asking");
  } finally {
    await pool.end();
  }
}

/** The schema version and migrations of the store. Changes nothing. */
export async function postgresMigrations({
  url,
  schema,
  ...session
}: ReadingOptions): Promise<MigrationStatus> {
  const target = parseTarget(url, schema);
  const pool = openPool(target, { ...session, readOnly: true });
  try {
    return statusOf(placeOf(target), await appliedTo(pool, target));
  } catch (error) {
    throw translatePostgresError(error, target, "connecting");
  } finally {
    await pool.end();
  }
}
