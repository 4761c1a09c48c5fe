import { defaults } from "../../defaults.js";
import { SqlStore } from "../sql/sql-store.js";
import type { ReadStore } from "../store.js";
import { translatePostgresError } from "./errors.js";
import { hasCurrentSchema } from "./migrate.js";
import type { PostgresStoreOptions } from "./open.js";
import { openPool } from "./pool.js";
import { PostgresEngine } from "./postgres-engine.js";
import { parseTarget } from "./target.js";

/** Open without changing anything: the server refuses every write. Null when nothing has been stored yet. */
export async function openPostgresStoreForReading(
  options: Omit<PostgresStoreOptions, "eventsKept">,
): Promise<ReadStore | null> {
  const target = parseTarget(options.url, options.schema);
  const pool = openPool(target, { name: options.name, readOnly: true });
  try {
    if (await hasCurrentSchema(pool, target))
      return new SqlStore(new PostgresEngine(pool, target), defaults.eventsKept);
    await pool.end();
    return null;
  } catch (error) {
    await pool.end();
    throw translatePostgresError(error, target, "connecting");
  }
}
