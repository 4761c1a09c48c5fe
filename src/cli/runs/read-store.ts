import type { ReadStore } from "../../store/sqlite/open-for-reading.js";
import { findStateDirectory, resolveHome } from "../../store/state-directory.js";

/** The store, for looking only; null when nothing has ever been recorded, and then no database is loaded. */
export async function openStoreForReading(): Promise<ReadStore | null> {
  const directory = await findStateDirectory(resolveHome());
  if (directory === null) return null;
  const { openSqliteStoreForReading } = await import("../../store/sqlite/open-for-reading.js");
  return openSqliteStoreForReading(directory.storePath);
}
