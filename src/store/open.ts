import { databaseUrl, migrationMode } from "../config/database-url.js";
import { defaults } from "../defaults.js";
import { HoldfastError } from "../errors.js";
import { requireNotLink } from "../home/own-file.js";
import type { StoreLocation } from "./location.js";
import type { MigrationStatus } from "./sql/migrations.js";
import type { StoreCheck, ReadStore, Store } from "./store.js";

// Either database is loaded only where it is used: every command would wait for it.

/** For a supervisor, or whatever else writes; `name` is whose it is. */
export async function openStore(storePath: string, name: string): Promise<Store> {
  const url = await databaseUrl();
  if (url === null) {
    requireNotLink(storePath);
    const { openSqliteStore } = await import("./sqlite/open.js");
    return openSqliteStore({ path: storePath });
  }
  const { openPostgresStore } = await import("./postgres/open.js");
  return openPostgresStore({ url, name, migrate: await migrationMode() });
}

/** For looking only. Null when nothing has been stored yet; without a state directory, only a database can have something. */
export async function openStoreForReading(storePath: string | null): Promise<ReadStore | null> {
  const url = await databaseUrl();
  if (url === null) {
    if (storePath === null) return null;
    requireNotLink(storePath);
    const { openSqliteStoreForReading } = await import("./sqlite/reader.js");
    return openSqliteStoreForReading(storePath);
  }
  const { openPostgresStoreForReading } = await import("./postgres/open.js");
  return openPostgresStoreForReading({ url, name: "reader" });
}

/** Look the store in use over, changing nothing. Null: nothing has been stored yet. */
export async function checkStore(storePath: string): Promise<StoreCheck | null> {
  const url = await databaseUrl();
  return checkStoreAt(url === null ? { kind: "sqlite", path: storePath } : { kind: "postgres", url });
}

export async function checkStoreAt(location: StoreLocation): Promise<StoreCheck | null> {
  if (location.kind === "sqlite") {
    const { checkSqliteStore } = await import("./sqlite/check.js");
    return checkSqliteStore(location.path);
  }
  const { checkPostgresStore } = await import("./postgres/check.js");
  return checkPostgresStore({ url: location.url, name: "doctor" });
}

/** The schema version and migrations of a store. Changes nothing. */
export async function migrationStatusAt(location: StoreLocation): Promise<MigrationStatus> {
  if (location.kind === "sqlite") {
    const { sqliteMigrationStatus: sqliteMigrations } = await import("./sqlite/check.js");
    return sqliteMigrations(location.path);
  }
  const { postgresMigrationStatus: postgresMigrations } = await import("./postgres/check.js");
  return postgresMigrations({ url: location.url, name: "doctor" });
}

/** Migrate or create a store's schema, whatever `database.migrate` says. */
export async function migrateStoreAt(location: StoreLocation): Promise<void> {
  const store = await (location.kind === "sqlite"
    ? (await import("./sqlite/open.js")).openSqliteStore({ path: location.path })
    : (await import("./postgres/open.js")).openPostgresStore({ url: location.url, name: "migrate" }));
  await store[Symbol.asyncDispose]();
}

/**
 * Calls `wake` whenever there may be new events, and now and then without a reason; `called` when somebody has handed
 * something over to `target` (null: perhaps to anybody).
 */
export async function watchEvents(
  name: string,
  wake: () => void,
  called: (target: string | null) => void = () => {},
): Promise<AsyncDisposable> {
  const url = await databaseUrl();
  if (url === null) {
    const looking = setInterval(wake, defaults.eventLookMs).unref();
    return { [Symbol.asyncDispose]: async () => clearInterval(looking) };
  }
  const { EventWatch } = await import("./postgres/event-watch.js");
  return new EventWatch({ url, name }, wake, defaults.eventPollMs, called);
}

const STORE_FAILURES: ReadonlySet<string> = new Set(["STORE_AWAY", "STATE_UNUSABLE", "STORE_UNREADABLE"]);

/** Whether an error says that the store could not be read, here or at a gateway. A copy of a state directory is no such case. */
export function isStoreFailure(error: unknown): boolean {
  return error instanceof HoldfastError && STORE_FAILURES.has(error.code);
}
