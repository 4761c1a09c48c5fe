import { access, chmod, constants, stat } from "node:fs/promises";
import { DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { defaults } from "../../defaults.js";
import { StateUnusable } from "../../errors.js";
import { readOnlyStoreError, translateSqliteError } from "../../home/sqlite-errors.js";
import { composeStore } from "../sql/compose.js";
import type { Store } from "../store.js";
import { BackgroundCheckpoints } from "./background-checkpoints.js";
import { retryWhileLocked, SqliteConnection } from "./retrying-connection.js";
import { SqliteEngine, WalSync } from "./engine.js";
import { migrateSqlite } from "./migrate.js";

export interface SqliteStoreOptions {
  readonly path: string;
  readonly eventsKept?: number;
  readonly busyMs?: number;
  /** Makes checkpoints in a thread of its own, for a process that serves many. Default: in the commit that fills the log. */
  readonly backgroundCheckpoints?: boolean;
}

/** Opens the store for writing. Creates or migrates it as needed. */
export async function openSqliteStore(options: SqliteStoreOptions): Promise<Store> {
  const { path, eventsKept = defaults.eventsKept, busyMs = defaults.storeBusyMs } = options;
  const fresh = await stat(path).then(
    () => false,
    () => true,
  );
  let db: DatabaseSyncInstance | null = null;
  try {
    const handle = new DatabaseSync(path, { timeout: 0, enableForeignKeyConstraints: true });
    db = handle;
    // The directory is private, too; this protects the file if its directory is opened up. WAL files inherit the mode.
    if (fresh) await chmod(path, 0o600);
    // SQLite opens a read-only file and fails only at the first write, when a command already waits to start.
    await access(path, constants.W_OK).catch((error: unknown) => {
      throw readOnlyStoreError(path, error);
    });
    await retryWhileLocked(() => {
      switchToWal(handle, path);
      handle.exec("pragma synchronous = normal");
      migrateSqlite(handle, path);
    }, busyMs);
    const checkpoints =
      options.backgroundCheckpoints === true ? new BackgroundCheckpoints(handle, path) : null;
    const connection = new SqliteConnection(handle, path, busyMs, checkpoints?.committed);
    return composeStore(new SqliteEngine(connection, new WalSync(path), checkpoints), eventsKept);
  } catch (error) {
    db?.close();
    throw translateSqliteError(error, path);
  }
}

function switchToWal(db: DatabaseSyncInstance, path: string): void {
  const [row] = db.prepare("pragma journal_mode = wal").all() as { journal_mode: string }[];
  if (row?.journal_mode === "wal") return;
  throw new StateUnusable(
    path,
    `the file system of ${path} does not let several processes share a database (no WAL); nothing was started. Set HOLDFAST_HOME to a directory on a local disk.`,
  );
}
