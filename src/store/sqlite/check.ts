import { stat } from "node:fs/promises";
import { defaults } from "../../defaults.js";
import { translateSqliteError } from "../../home/sqlite-errors.js";
import { migrationStatus, type MigrationStatus } from "../sql/migrations.js";
import type { StoreCheck } from "../store.js";
import { appliedSqliteMigrations, sqliteStoreLabel } from "./migrate.js";
import { openReadOnlyDatabase, openReadOnlyView, readFingerprint } from "./read-only-view.js";

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
