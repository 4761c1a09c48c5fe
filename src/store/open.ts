import { databaseUrl, migrationMode } from "../config/database-url.js";
import { defaults } from "../defaults.js";
import { HoldfastError } from "../errors.js";
import { requireNotLink } from "../home/own-file.js";
import type { StoreLocation } from "./location.js";
import type { MigrationStatus } from "./sql/migrations.js";
import type { SqliteStoreOptions } from "./sqlite/open.js";
import type { ReadStore, Store, StoreCheck } from "./store.js";

// Each database module is loaded only where it is used, because loading it delays every command.

export type OpenStoreOptions = Pick<SqliteStoreOptions, "backgroundCheckpoints">;

/** Opens the store for writing. `name` is shown by the database server. */
export async function openStore(
  storePath: string,
  name: string,
  options: OpenStoreOptions = {},
): Promise<Store> {
  const url = await databaseUrl();
  if (url === null) {
    requireNotLink(storePath);
    const { openSqliteStore } = await import("./sqlite/open.js");
    return openSqliteStore({ path: storePath, ...options });
  }
  const { openPostgresStore } = await import("./postgres/open.js");
  return openPostgresStore({ url, name, migrate: await migrationMode() });
}

/** Opens the store for reading. Null: it has no tables yet, or there is neither a state directory nor a database. */
export async function openStoreForReading(storePath: string | null): Promise<ReadStore | null> {
  const url = await databaseUrl();
  if (url === null) {
    if (storePath === null) return null;
    requireNotLink(storePath);
    const { openSqliteStoreForReading } = await import("./sqlite/open-for-reading.js");
    return openSqliteStoreForReading(storePath);
  }
  const { openPostgresStoreForReading } = await import("./postgres/open.js");
  return openPostgresStoreForReading({ url, name: "reader" });
}

/** Checks the store in use; changes nothing. Null: it has no tables yet. */
export async function checkStore(storePath: string): Promise<StoreCheck | null> {
  const url = await databaseUrl();
  return checkStoreAt(url === null ? { kind: "sqlite", path: storePath } : { kind: "postgres", url });
}

export async function checkStoreAt(location: StoreLocation): Promise<StoreCheck | null> {
  if (location.kind === "sqlite") {
    const { checkSqliteStore } = await import("./sqlite/open-for-reading.js");
    return checkSqliteStore(location.path);
  }
  const { checkPostgresStore } = await import("./postgres/open.js");
  return checkPostgresStore({ url: location.url, name: "doctor" });
}

/** The schema version and migrations of a store. Changes nothing. */
export async function migrationStatusAt(location: StoreLocation): Promise<MigrationStatus> {
  if (location.kind === "sqlite") {
    const { sqliteMigrationStatus: sqliteMigrations } = await import("./sqlite/open-for-reading.js");
    return sqliteMigrations(location.path);
  }
  const { postgresMigrationStatus: postgresMigrations } = await import("./postgres/open.js");
  return postgresMigrations({ url: location.url, name: "doctor" });
}

/** Creates or migrates a store's schema, whatever `database.migrate` says. */
export async function migrateStoreAt(location: StoreLocation): Promise<void> {
  const store = await (location.kind === "sqlite"
    ? (await import("./sqlite/open.js")).openSqliteStore({ path: location.path })
    : (await import("./postgres/open.js")).openPostgresStore({ url: location.url, name: "migrate" }));
  await store[Symbol.asyncDispose]();
}

/**
 * Calls `wake` when there may be new events, and at an interval; `called` when something was committed for `target`
 * (null: perhaps for any target).
 */
export async function watchEvents(
  name: string,
  wake: () => void,
  called: (target: string | null) => void = () => {},
): Promise<AsyncDisposable> {
  const url = await databaseUrl();
  if (url === null) {
    const timer = setInterval(wake, defaults.sqliteEventPollMs).unref();
    return { [Symbol.asyncDispose]: async () => clearInterval(timer) };
  }
  const { EventWatch } = await import("./postgres/listen-notify.js");
  return new EventWatch({ url, name }, wake, defaults.eventPollMs, called);
}

const STORE_FAILURES: ReadonlySet<string> = new Set(["STORE_AWAY", "STATE_UNUSABLE", "STORE_UNREADABLE"]);

/** True if the store could not be read, here or at a gateway. A copied state directory is another error. */
export function isStoreFailure(error: unknown): boolean {
  return error instanceof HoldfastError && STORE_FAILURES.has(error.code);
}
