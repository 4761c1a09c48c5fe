import type { DatabaseSyncInstance } from "@photostructure/sqlite";
import { StateUnusable } from "../../errors.js";
import * as runs from "./migrations/0001-runs.js";
import * as runEvents from "./migrations/0002-run-events.js";
import * as origin from "./migrations/0003-origin.js";
import * as sessions from "./migrations/0004-sessions.js";
import * as limits from "./migrations/0005-limits.js";
import * as services from "./migrations/0006-services.js";
import * as sessionOfRun from "./migrations/0007-session-of-run.js";

/** Forward only: an entry is never edited once it has been released, only followed by another. */
export const migrations = [
  { id: 1, name: "runs", sql: runs.sql },
  { id: 2, name: "run-events", sql: runEvents.sql },
  { id: 3, name: "origin", sql: origin.sql },
  { id: 4, name: "sessions", sql: sessions.sql },
  { id: 5, name: "limits", sql: limits.sql },
  { id: 6, name: "services", sql: services.sql },
  { id: 7, name: "session-of-run", sql: sessionOfRun.sql },
] as const;

type Migration = (typeof migrations)[number];

const newest = migrations[migrations.length - 1]?.id ?? 0;

/** Bring the schema up to date, in one transaction: half a schema is never seen, by whatever crash. */
export function migrate(db: DatabaseSyncInstance, path: string): void {
  // Asked first without the write lock, so that opening does not queue behind busy writers.
  if (missing(db, path)?.length === 0) return;
  db.exec("begin immediate");
  try {
    // Asked again: another process may have migrated while this one waited for the lock.
    const wanted = missing(db, path);
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
    db.exec("commit");
  } catch (error) {
    // A full disk has rolled back already.
    if (db.isTransaction) db.exec("rollback");
    throw error;
  }
}

/** For readers, who may not migrate. Null: nothing has been written yet. */
export function requireCurrentSchema(db: DatabaseSyncInstance, path: string): "current" | null {
  const wanted = missing(db, path);
  if (wanted === null) return null;
  const [first] = wanted;
  if (first !== undefined) {
    throw new StateUnusable(
      path,
      `the store ${path} was written by an older Holdfast (schema ${first.id - 1}, this one reads ${newest}); it was only going to be read, so nothing was changed. Any command that starts a run brings it up to date.`,
    );
  }
  return "current";
}

/** Which are not recorded, whatever comes after them. Null: the database is empty. */
function missing(db: DatabaseSyncInstance, path: string): readonly Migration[] | null {
  const names = db.prepare("select name from sqlite_schema where type = 'table'").all() as { name: string }[];
  if (names.length === 0) return null;
  if (!names.some(({ name }) => name === "holdfast_migrations")) {
    throw new StateUnusable(
      path,
      `${path} is a database of some other program; it is left as it is. Move it away, or set HOLDFAST_HOME to another directory.`,
    );
  }
  const rows = db.prepare("select id from holdfast_migrations").all() as { id: number }[];
  const applied = new Set(rows.map(({ id }) => id));
  const version = Math.max(0, ...applied);
  if (version > newest) {
    throw new StateUnusable(
      path,
      `the store ${path} was written by a newer Holdfast (schema ${version}, this one knows ${newest}); it is left as it is and nothing is started. Upgrade Holdfast, or set HOLDFAST_HOME to another directory.`,
    );
  }
  return migrations.filter(({ id }) => !applied.has(id));
}
