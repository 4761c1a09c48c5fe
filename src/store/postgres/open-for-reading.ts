import { defaults } from "../../defaults.js";
import { SqlStore } from "../runs/writes.js";
import type { ReadStore } from "../store.js";
import { PostgresEngine } from "./engine.js";
import { openReadPool, type PostgresReadOptions } from "./reading.js";

/** Open without changing anything. Null when nothing has been stored yet. */
export async function openPostgresStoreForReading(options: PostgresReadOptions): Promise<ReadStore | null> {
  const readPool = await openReadPool(options);
  if (readPool === null) return null;
  return new SqlStore(
    new PostgresEngine(readPool.pool, readPool.target, { bringUpToDate: null }),
    defaults.eventsKept,
  );
}
