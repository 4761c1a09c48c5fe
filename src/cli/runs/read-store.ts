import * as store from "../../store/open.js";
import type { ReadStore } from "../../store/store.js";
import { findStateDirectory, resolveHome } from "../../store/state-directory.js";

/** The store, for looking only; null when nothing has ever been recorded, and then no database is loaded. */
export async function openStoreForReading(): Promise<ReadStore | null> {
  const directory = await findStateDirectory(resolveHome());
  return store.openStoreForReading(directory?.storePath ?? null);
}
