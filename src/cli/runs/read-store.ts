import { openSqliteStoreForReading, type ReadStore } from "../../store/sqlite/open-for-reading.js";
import { findStateDirectory, resolveHome } from "../../store/state-directory.js";

/** The store, for looking only; null when nothing has ever been recorded. */
export async function openStoreForReading(): Promise<ReadStore | null> {
  const directory = await findStateDirectory(resolveHome());
  return directory === null ? null : openSqliteStoreForReading(directory.storePath);
}
