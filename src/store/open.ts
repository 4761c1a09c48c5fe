import { defaults } from "../defaults.js";
import { databaseAddress, migrationMode } from "./database-address.js";
import { requireNotLink } from "./own-file.js";
import type { Place } from "./place.js";
import type { MigrationStatus } from "./sql/migrations.js";
import type { StoreHealth } from "./sqlite/check.js";
import type { ReadStore, Store } from "./store.js";

// Either database is loaded only where it is used: every command would wait for it.

/** For a supervisor, or whatever else writes; `name` is whose it is. */
export async function openStore(storePath: string, name: string): Promise<Store> {
  const url = await databaseAddress();
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
  const url = await databaseAddress();
  if (url === null) {
    if (storePath === null) return null;
    requireNotLink(storePath);
    const { openSqliteStoreForReading } = await import("./sqlite/open-for-reading.js");
    return openSqliteStoreForReading(storePath);
  }
  const { openPostgresStoreForReading } = await import("./postgres/open-for-reading.js");
  return openPostgresStoreForReading({ url, name: "reader" });
}

/** Look the store in use over, changing nothing. Null: nothing has been stored yet. */
export async function checkStore(storePath: string): Promise<StoreHealth | null> {
  const url = await databaseAddress();
  return checkPlace(url === null ? { kind: "sqlite", path: storePath } : { kind: "postgres", url });
}

export async function checkPlace(place: Place): Promise<StoreHealth | null> {
  if (place.kind === "sqlite") {
    const { checkSqliteStore } = await import("./sqlite/check.js");
    return checkSqliteStore(place.path);
  }
  const { checkPostgresStore } = await import("./postgres/check.js");
  return checkPostgresStore({ url: place.url, name: "doctor" });
}

/** The schema version and migrations of a store. Changes nothing. */
export async function migrationsOf(place: Place): Promise<MigrationStatus> {
  if (place.kind === "sqlite") {
    const { sqliteMigrations } = await import("./sqlite/check.js");
    return sqliteMigrations(place.path);
  }
  const { postgresMigrations } = await import("./postgres/check.js");
  return postgresMigrations({ url: place.url, name: "doctor" });
}

/** Migrate or create a store's schema, whatever `database.migrate` says. */
export async function migratePlace(place: Place): Promise<void> {
  const store = await (place.kind === "sqlite"
    ? (await import("./sqlite/open.js")).openSqliteStore({ path: place.path })
    : (await import("./postgres/open.js")).openPostgresStore({ url: place.url, name: "migrate" }));
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
  const url = await databaseAddress();
  if (url === null) {
    const looking = setInterval(wake, defaults.eventLookMs).unref();
    return { [Symbol.asyncDispose]: async () => clearInterval(looking) };
  }
  const { EventWatch } = await import("./postgres/event-watch.js");
  return new EventWatch({ url, name }, wake, defaults.eventPollMs, called);
}
