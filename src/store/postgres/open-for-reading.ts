import { defaults } from "../../defaults.js";
import { SqlStore } from "../sql/sql-store.js";
import type { ReadStore } from "../store.js";
import { PostgresEngine } from "./postgres-engine.js";
import { openForReading, type ReadingOptions } from "./reading.js";

/** Open without changing anything. Null when nothing has been stored yet. */
export async function openPostgresStoreForReading(options: ReadingOptions): Promise<ReadStore | null> {
  const reading = await openForReading(options);
  if (reading === null) return null;
  return new SqlStore(
    new PostgresEngine(reading.pool, reading.target, { bringUpToDate: null }),
    defaults.eventsKept,
  );
}
