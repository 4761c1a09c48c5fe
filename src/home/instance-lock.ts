import { stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import type { DatabaseSyncInstance } from "@photostructure/sqlite";
import { InstanceLocked } from "../errors.js";
import { requireNotLink } from "./own-file.js";
import { isBusy, translateSqliteError } from "./sqlite-errors.js";

/**
 * The kernel holds the lock (a record lock on the file), so it ends with the process, however that
 * ends, and is seen from every container that shares the directory. Nothing but SQLite may open the
 * file in this process: closing any other descriptor of it would drop the lock.
 */
const lockFilePath = (dir: string): string => join(dir, "instance.lock");

/** A process that only checks the lock holds it for microseconds. A longer lock belongs to a supervisor. */
const PROBES_GONE_MS = 100;
const RETRY_MS = 5;

export interface FileLock extends AsyncDisposable {
  /** False: the file was removed or replaced, so this lock no longer excludes other processes. */
  isInPlace(): Promise<boolean>;
}

/** Rejects with InstanceLocked when a live supervisor, of this process or another, holds the instance. */
export async function acquireInstanceLock(dir: string): Promise<FileLock> {
  const path = lockFilePath(dir);
  const deadline = performance.now() + PROBES_GONE_MS;
  for (;;) {
    const before = await inode(path);
    const db = tryLock(path);
    // The file may have been removed with its dead instance and created again. A lock on the removed file is void.
    if (db !== null && before !== null && before === (await inode(path))) return holdLock(db, path, before);
    db?.close();
    if (db === null && performance.now() >= deadline) throw new InstanceLocked(basename(dir));
    if (db === null) await delay(RETRY_MS);
  }
}

/** Only reads: creates nothing and does not wait. True also if there is no such instance. */
export async function isInstanceLockFree(dir: string): Promise<boolean> {
  const path = lockFilePath(dir);
  if ((await inode(path)) === null) return true;
  requireNotLink(path);
  let db: DatabaseSyncInstance | null = null;
  try {
    db = new DatabaseSync(path, { readOnly: true, timeout: 0 });
    db.exec("select count(*) from sqlite_schema");
    return true;
  } catch (error) {
    if (isBusy(error)) return false;
    // Removed since.
    if ((await inode(path)) === null) return true;
    throw translateSqliteError(error, path);
  } finally {
    db?.close();
  }
}

function tryLock(path: string): DatabaseSyncInstance | null {
  requireNotLink(path);
  let db: DatabaseSyncInstance | null = null;
  try {
    db = new DatabaseSync(path, { timeout: 0 });
    db.exec("begin exclusive");
    return db;
  } catch (error) {
    db?.close();
    if (isBusy(error)) return null;
    throw translateSqliteError(error, path);
  }
}

/** Keeps references to held locks, so that garbage collection does not release them. */
const heldLocks = new Set<DatabaseSyncInstance>();

function holdLock(db: DatabaseSyncInstance, path: string, ino: bigint): FileLock {
  heldLocks.add(db);
  return {
    // The number cannot be given to another file while this one is open.
    isInPlace: async () => ino === (await inode(path)),
    async [Symbol.asyncDispose]() {
      if (heldLocks.delete(db)) db.close();
    },
  };
}

async function inode(path: string): Promise<bigint | null> {
  try {
    return (await stat(path, { bigint: true })).ino;
  } catch {
    return null;
  }
}
