import type { DatabaseSyncInstance } from "@photostructure/sqlite";
import {
  migrations,
  pendingMigrations,
  otherProgramError,
  requireNoPendingMigrations,
  type AppliedMigration,
  type Migration,
  type StoreLabel,
} from "../sql/migrations.js";

/** Migrates the schema in one transaction, so that a crash leaves no half schema. */
export function migrateSqlite(db: DatabaseSyncInstance, path: string): void {
  // Checked first without the write lock, so that opening does not wait for busy writers.
  if (pendingSqliteMigrations(db, path)?.length === 0) return;
  db.exec("begin immediate");
  try {
    // Checked again: another process may have migrated meanwhile.
    const wanted = pendingSqliteMigrations(db, path);
    if (wanted === null) {
      db.exec(
        "create table holdfast_migrations (id integer primary key not null, name text not null, applied_at integer not null) strict",
      );
    }
    const record = db.prepare("insert into holdfast_migrations (id, name, applied_at) values (?, ?, ?)");
    for (const migration of wanted ?? migrations) {
      db.exec(migration.sql);
      record.run(migration.id, migration.name, Date.now());
    }
    const compatible = db.prepare("update holdfast_migrations set min_compatible = ? where id = ?");
    for (const { id, minCompatible } of wanted ?? migrations)
      if (minCompatible !== undefined) compatible.run(minCompatible, id);
    db.exec("commit");
  } catch (error) {
    // A full disk has rolled back already.
    if (db.isTransaction) db.exec("rollback");
    throw error;
  }
}

/** For readers, which may not migrate. Null: the database is empty. */
export function requireCurrentSchema(db: DatabaseSyncInstance, path: string): "current" | null {
  const wanted = pendingSqliteMigrations(db, path);
  if (wanted === null) return null;
  requireNoPendingMigrations(sqliteStoreLabel(path), wanted);
  return "current";
}

/** Null: the database is empty. */
function pendingSqliteMigrations(db: DatabaseSyncInstance, path: string): readonly Migration[] | null {
  const recorded = appliedSqliteMigrations(db, path);
  return recorded === null ? null : pendingMigrations(sqliteStoreLabel(path), recorded);
}

/** The migrations that the store has recorded, including those of a newer version. Null: the database is empty. */
export function appliedSqliteMigrations(
  db: DatabaseSyncInstance,
  path: string,
): readonly AppliedMigration[] | null {
  const names = db.prepare("select name from sqlite_schema where type = 'table'").all() as { name: string }[];
  if (names.length === 0) return null;
  if (!names.some(({ name }) => name === "holdfast_migrations")) {
    throw otherProgramError(sqliteStoreLabel(path));
  }
  return db.prepare("select * from holdfast_migrations order by id").all() as AppliedMigration[];
}

export function sqliteStoreLabel(path: string): StoreLabel {
  return { path, otherwise: "set HOLDFAST_HOME to another directory" };
}
