import { databaseUrl } from "../config/database-url.js";
import { StateCopied } from "../errors.js";
import {
  createStateDirectory,
  findStateDirectoryOrCopy,
  type StateDirectory,
} from "../home/state-directory.js";
import { classifyLocation, recordLocation, type StateProvenance } from "../home/state-location.js";
import { OPEN_RUN_STATES } from "../model/run.js";

/** Opens the state directory for writing. Creates it if it does not exist; rejects with StateCopied if it is a copy. */
export async function openStateDirectory(path: string): Promise<StateDirectory> {
  const directory = await createStateDirectory(path);
  const { kind } = await requireOriginal(directory.home);
  if (kind === "moved") await recordLocation(directory.home);
  return directory;
}

/** Finds the state directory for reading: creates nothing, and it need not be writable. Null: there is none. */
export async function findStateDirectory(path: string): Promise<StateDirectory | null> {
  const directory = await findStateDirectoryOrCopy(path);
  if (directory !== null) await requireOriginal(directory.home);
  return directory;
}

/** Rejects with StateCopied if the state directory is a copy: its runs belong to the original. */
export async function requireOriginal(home: string): Promise<StateProvenance> {
  const found = await provenanceOf(home);
  if (found.kind === "copy") throw new StateCopied(home, found.recorded.path, found.originalThere);
  return found;
}

export function provenanceOf(home: string): Promise<StateProvenance> {
  return classifyLocation(home, hasNoOpenRuns);
}

/** False also if the store cannot be read, or is a database that other state directories may use. */
async function hasNoOpenRuns(storePath: string): Promise<boolean> {
  try {
    if ((await databaseUrl()) !== null) return false;
    const { openSqliteStoreForReading } = await import("./sqlite/open-for-reading.js");
    await using store = await openSqliteStoreForReading(storePath);
    return store === null || (await store.listRuns({ states: OPEN_RUN_STATES, limit: 1 })).length === 0;
  } catch {
    return false;
  }
}
