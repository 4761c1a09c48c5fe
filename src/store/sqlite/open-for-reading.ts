import { statSync } from "node:fs";
import { stat } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { CompiledQuery, type Kysely } from "kysely";
import { hostMonotonicMs } from "../../async/clock.js";
import { defaults } from "../../defaults.js";
import { StateUnusable } from "../../errors.js";
import { translateSqliteError } from "../../home/sqlite-errors.js";
import type { Schema } from "../schema.js";
import { composeReadStore } from "../sql/compose.js";
import type { GroupedCall, Reader } from "../sql/engine.js";
import { Statements } from "../sql/statement-cache.js";
import { migrationStatus, type MigrationStatus } from "../sql/migrations.js";
import type { ReadStore, StoreCheck } from "../store.js";
import { retryWhileLocked, SqliteConnection } from "./retrying-connection.js";
import { createSqliteKysely, sqliteDialect } from "./engine.js";
import { appliedSqliteMigrations, requireCurrentSchema, sqliteStoreLabel } from "./migrate.js";

/** Identifies the content of a database file, to detect changes. */
interface FileFingerprint {
  readonly inode: bigint;
  readonly size: bigint;
  readonly changedAt: bigint;
  /** True if there is a log that is not empty. */
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
function openReadOnlyView(path: string, fingerprint: FileFingerprint): Promise<ReadOnlyView> {
  return retryWhileLocked(() => new ReadOnlyView(path, fingerprint), defaults.storeBusyMs);
}

class ReadOnlyView implements AsyncDisposable {
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

/** A writer would have to start and finish inside every one of these reads. */
const READ_ATTEMPTS = 20;

/** Opens the file for reading. Creates nothing, not even a file. Null: the file has no tables yet. */
export async function openSqliteStoreForReading(path: string): Promise<ReadStore | null> {
  const reader = new SqliteReader(path);
  try {
    return (await reader.hasSchema()) ? composeReadStore(reader) : null;
  } catch (error) {
    await reader[Symbol.asyncDispose]();
    throw error;
  }
}

class SqliteReader implements Reader {
  readonly dialect = sqliteDialect;
  readonly statements = new Statements();
  readonly #path: string;
  #view: ReadOnlyView | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  async hasSchema(): Promise<boolean> {
    return readFingerprint(this.#path) !== null && (await this.read(async () => true, false));
  }

  async read<Result>(query: (db: Kysely<Schema>) => Promise<Result>, empty: Result): Promise<Result> {
    let lastError: unknown = null;
    for (let attempt = 0; attempt < READ_ATTEMPTS; attempt += 1) {
      const before = readFingerprint(this.#path);
      if (before === null) return empty;
      try {
        const { db } = await this.#currentView(before);
        const result = db === null ? empty : await query(db);
        if (before.log || isSameFingerprint(before, readFingerprint(this.#path))) return result;
      } catch (error) {
        if (isSameFingerprint(before, readFingerprint(this.#path))) throw error;
        lastError = error;
      }
    }
    throw new StateUnusable(
      this.#path,
      `${this.#path} changed during every attempt to read it; nothing was changed by reading. Try again.`,
      { cause: lastError },
    );
  }

  /** Not grouped: a statement costs no round trip. */
  group<Call, Result>({ alone }: GroupedCall<Call, Result>): (call: Call) => Promise<Result> {
    return alone;
  }

  /** Null: a file is rolled back only together with its state directory. */
  async lastSettledEvent(): Promise<null> {
    return null;
  }

  async now(): Promise<number> {
    return hostMonotonicMs();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const view = this.#view;
    this.#view = null;
    await view?.[Symbol.asyncDispose]();
  }

  /** The open view if it still shows this file, otherwise a new one. */
  async #currentView(at: FileFingerprint): Promise<ReadOnlyView> {
    if (this.#view?.isCurrent(at) === true) return this.#view;
    await this[Symbol.asyncDispose]();
    this.#view = await openReadOnlyView(this.#path, at);
    return this.#view;
  }
}

/** Checks the whole file; changes nothing. Null: the file does not exist or is empty. Rejects if it cannot be read. */
export async function checkSqliteStore(path: string): Promise<StoreCheck | null> {
  const at = readFingerprint(path);
  if (at === null) return null;
  await using view = await openReadOnlyView(path, at);
  if (view.db === null) return null;
  const check = String((await view.value("pragma quick_check(1)")) ?? "no answer");
  const events = Number((await view.value("select count(*) from run_events")) ?? 0);
  const count = async (text: string): Promise<number> => Number((await view.value(text)) ?? 0);
  return {
    schema: await count("select max(id) from holdfast_migrations"),
    damage: check === "ok" ? null : check,
    runs: {
      open: await count("select count(*) from runs where state <> 'exited'"),
      ended: await count("select count(*) from runs where state = 'exited'"),
    },
    events,
    mostEvents: events,
    logBytes: await stat(`${path}-wal`).then(
      ({ size }) => size,
      () => 0,
    ),
  };
}

/** The schema version and migrations of the store. Changes nothing. */
export function sqliteMigrationStatus(path: string): MigrationStatus {
  const at = readFingerprint(path);
  if (at === null) return migrationStatus(sqliteStoreLabel(path), null);
  try {
    const db = openReadOnlyDatabase(path, at, defaults.storeBusyMs);
    try {
      return migrationStatus(sqliteStoreLabel(path), appliedSqliteMigrations(db, path));
    } finally {
      db.close();
    }
  } catch (error) {
    throw translateSqliteError(error, path);
  }
}
