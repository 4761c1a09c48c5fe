import { access, chmod, constants, stat } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { DatabaseSync } from "@photostructure/sqlite";
import type { DatabaseSyncInstance } from "@photostructure/sqlite";
import { defaults } from "../../defaults.js";
import { StateUnusable } from "../../errors.js";
import { SqlStore } from "../sql/sql-store.js";
import type { Store } from "../store.js";
import { SqliteConnection } from "./connection.js";
import { isBusy, storeIsReadOnly, translateSqliteError } from "./errors.js";
import { migrate } from "./migrate.js";
import { SqliteEngine } from "./sqlite-engine.js";
import { WalSync } from "./wal-sync.js";

export interface SqliteStoreOptions {
  readonly path: string;
  readonly eventsKept?: number;
  readonly busyMs?: number;
}

/** Between two attempts to switch a new database to WAL, which does not wait by itself. A switch takes about a millisecond. */
const WAL_RETRY_MS = 5;

/** Open the store for a supervisor, creating it or bringing its schema up to date as needed. */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const { path, eventsKept = defaults.eventsKept, busyMs = defaults.storeBusyMs } = options;
  const fresh = await stat(path).then(
    () => false,
    () => true,
  );
  let db: DatabaseSyncInstance | null = null;
  try {
    db = new DatabaseSync(path, { timeout: busyMs, enableForeignKeyConstraints: true });
    // The directory is private too; this is for the day somebody opens it up. WAL files take the mode of the database.
    if (fresh) await chmod(path, 0o600);
    // SQLite would open it all the same and fail at the first write, with a command already waiting to start.
    await access(path, constants.W_OK).catch((error: unknown) => {
      throw storeIsReadOnly(path, error);
    });
    await switchToWal(db, path, busyMs);
    db.exec("pragma synchronous = normal");
    migrate(db, path);
    return new SqlStore(new SqliteEngine(new SqliteConnection(db, path), new WalSync(path)), eventsKept);
  } catch (error) {
    db?.close();
    throw translateSqliteError(error, path);
  }
}

async function switchToWal(db: DatabaseSyncInstance, path: string, busyMs: number): Promise<void> {
  const deadline = performance.now() + busyMs;
  for (;;) {
    try {
      const [row] = db.prepare("pragma journal_mode = wal").all() as { journal_mode: string }[];
      if (row?.journal_mode === "wal") return;
      throw new StateUnusable(
        path,
        `the file system of ${path} does not let several processes share a database (no WAL); nothing was started. Set HOLDFAST_HOME to a directory on a local disk.`,
      );
    } catch (error) {
      // SQLite gives up at once here instead of waiting: two that switch at the same time would wait for each other.
      if (!isBusy(error) || performance.now() >= deadline) throw error;
      await delay(WAL_RETRY_MS);
    }
  }
}
