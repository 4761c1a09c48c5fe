import type { Pool } from "pg";
import { translatePostgresError } from "./errors.js";
import { hasCurrentSchema } from "./migrate.js";
import type { PostgresStoreOptions } from "./open.js";
import { openPool } from "./pool.js";
import { parseTarget, type PostgresTarget } from "./target.js";

export type ReadingOptions = Omit<PostgresStoreOptions, "eventsKept" | "migrate">;

export interface Reading {
  readonly pool: Pool;
  readonly target: PostgresTarget;
}

/** Connections on which the server refuses every write. Null, and none is left open, when nothing has been stored yet. */
export async function openForReading({ url, schema, ...session }: ReadingOptions): Promise<Reading | null> {
  const target = parseTarget(url, schema);
  const pool = openPool(target, { ...session, readOnly: true });
  try {
    if (await hasCurrentSchema(pool, target)) return { pool, target };
    await pool.end();
    return null;
  } catch (error) {
    await pool.end();
    throw translatePostgresError(error, target, "connecting");
  }
}
