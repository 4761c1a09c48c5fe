import { statSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { CompiledQuery, type Kysely } from "kysely";
import { defaults } from "../../defaults.js";
import { translateSqliteError } from "../../home/sqlite-errors.js";
import type { Schema } from "../schema.js";
import { SqliteConnection } from "./connection.js";
import { createSqliteKysely } from "./engine.js";
import { requireCurrentSchema } from "./migrate.js";
import { retryWhileLocked } from "./write-queue.js";

/** Identifies the content of a database file, to detect changes. */
export interface FileFingerprint {
  readonly inode: bigint;
  readonly size: bigint;
  readonly changedAt: bigint;
  /** Whether there is a log that is not empty. */
  readonly log: boolean;
}

/**
 * Null: the file does not exist. The file is not opened for this, because closing a descriptor would drop the locks
 * that SQLite holds on it in this process (https://sqlite.org/howtocorrupt.html, 2.2).
 */
export function readFingerprint(path: string): FileFingerprint | null {
  const file = statSync(path, { bigint: true, throwIfNoEntry: false });
  if (file === undefined) return null;
  const log = statSync(`${path}-wal`, { bigint: true, throwIfNoEntry: false });
  return {
    inode: file.ino,
    size: file.size,
    changedAt: file.ctimeNs,
    log: log !== undefined && log.size > 0n,
  };
}

export function isSameFingerprint(one: FileFingerprint, other: FileFingerprint | null): boolean {
  return (
    other !== null &&
    one.inode === other.inode &&
    one.size === other.size &&
    one.changedAt === other.changedAt &&
    one.log === other.log
  );
}

/**
 * Opens a WAL database without changing it. If it has a log, it is opened normally, and commits of writers are visible.
 * Without a log it is opened as an immutable file, because a normal open would create the log and leave it behind.
 * An immutable file is read without locks, so the result is valid only if the file did not change.
 */
export function openReadOnlyDatabase(
  path: string,
  fingerprint: FileFingerprint,
  timeout: number,
): DatabaseSyncInstance {
  return new DatabaseSync(fingerprint.log ? path : immutableUrl(path), { readOnly: true, timeout });
}

/** Waits on a timer while another process has the file locked. */
export function openReadOnlyView(path: string, fingerprint: FileFingerprint): Promise<ReadOnlyView> {
  return retryWhileLocked(() => new ReadOnlyView(path, fingerprint), defaults.storeBusyMs);
}

export class ReadOnlyView implements AsyncDisposable {
  /** Null: the file has no tables yet. */
  readonly db: Kysely<Schema> | null;
  readonly #fingerprint: FileFingerprint;
  readonly #connection: SqliteConnection;

  constructor(path: string, fingerprint: FileFingerprint) {
    this.#fingerprint = fingerprint;
    try {
      const handle = openReadOnlyDatabase(path, fingerprint, 0);
      this.#connection = new SqliteConnection(handle, path, defaults.storeBusyMs);
      try {
        const current = requireCurrentSchema(handle, path) !== null;
        this.db = current ? createSqliteKysely(this.#connection) : null;
      } catch (error) {
        handle.close();
        throw error;
      }
    } catch (error) {
      throw translateSqliteError(error, path);
    }
  }

  isCurrent(file: FileFingerprint): boolean {
    if (this.#fingerprint.log !== file.log) return false;
    // A view of an empty database is opened again each time, because tables may have been created.
    if (this.db === null) return false;
    return file.log ? this.#fingerprint.inode === file.inode : isSameFingerprint(this.#fingerprint, file);
  }

  /** One value of a pragma or a count. */
  async value(sql: string): Promise<string | number | null> {
    const { rows } = await this.#connection.executeQuery<Record<string, string | number | null>>(
      CompiledQuery.raw(sql),
    );
    const [row] = rows;
    return Object.values(row ?? {})[0] ?? null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.db?.destroy();
    await this.#connection.close();
  }
}

function immutableUrl(path: string): URL {
  const url = pathToFileURL(path);
  url.searchParams.set("immutable", "1");
  return url;
}
