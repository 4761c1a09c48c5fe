import type { Pool } from "pg";
import { translatePostgresError } from "./errors.js";
import { hasCurrentSchema } from "./migrate.js";
import type { PostgresStoreOptions } from "./open.js";
import { openPool } from "./pool.js";
import { parsePostgresUrl, type PostgresAddress } from "../../config/postgres-url.js";

export type PostgresReadOptions = Omit<PostgresStoreOptions, "eventsKept" | "migrate">;

export interface PostgresReadPool {
  readonly pool: Pool;
  readonly target: PostgresAddress;
}

/** Connections on which the server refuses every write. Null, and none is left open, when nothing has been stored yet. */
export async function openReadPool({
  url,
  schema,
  ...session
}: PostgresReadOptions): Promise<PostgresReadPool | null> {
  const address = parsePostgresUrl(url, schema);
  const pool = openPool(address, { ...session, readOnly: true });
  try {
    if (await hasCurrentSchema(pool, address)) return { pool, target: address };
    await pool.end();
    return null;
  } catch (error) {
    await pool.end();
    throw translatePostgresError(error, address, "connecting");
  }
}
