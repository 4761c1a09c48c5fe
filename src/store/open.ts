import { checkSqliteStore, type StoreHealth } from "./sqlite/check.js";
import { openSqliteStoreForReading } from "./sqlite/open-for-reading.js";
import { openSqliteStore } from "./sqlite/open.js";
import type { ReadStore, Store } from "./store.js";

/** Where records are kept. Null: in the state directory's own file. */
export function databaseUrl(env: Readonly<Record<string, string | undefined>> = process.env): string | null {
  const url = env["HOLDFAST_DATABASE_URL"];
  return url === undefined || url === "" ? null : url;
}

/** For a supervisor, or whatever else writes; `name` is whose it is. */
export async function openStore(storePath: string, name: string): Promise<Store> {
  const url = databaseUrl();
  if (url === null) return openSqliteStore({ path: storePath });
  // Loaded only where it is used: most have no use for it, and every command would wait for it.
  const { openPostgresStore } = await import("./postgres/open.js");
  return openPostgresStore({ url, name });
}

/** For looking only. Null when nothing has been stored yet; without a state directory, only a database can have something. */
export async function openStoreForReading(storePath: string | null): Promise<ReadStore | null> {
  const url = databaseUrl();
  if (url === null) return storePath === null ? null : openSqliteStoreForReading(storePath);
  const { openPostgresStoreForReading } = await import("./postgres/open-for-reading.js");
  return openPostgresStoreForReading({ url, name: "reader" });
}

/** Look it over, changing nothing. Null: nothing has been stored yet. */
export async function checkStore(storePath: string): Promise<StoreHealth | null> {
  const url = databaseUrl();
  if (url === null) return checkSqliteStore(storePath);
  const { checkPostgresStore } = await import("./postgres/check.js");
  return checkPostgresStore({ url, name: "doctor" });
}
