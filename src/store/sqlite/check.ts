import { stat } from "node:fs/promises";
import { defaults } from "../../defaults.js";
import { statusOf, type MigrationStatus } from "../sql/migrations.js";
import { translateSqliteError } from "./errors.js";
import { fingerprint } from "./fingerprint.js";
import { appliedTo, placeOf } from "./migrate.js";
import { openReadOnly, openView } from "./read-only-view.js";

export interface StoreHealth {
  readonly schema: number;
  /** What SQLite found wrong; null: nothing. */
  readonly damage: string | null;
  readonly runs: { readonly open: number; readonly ended: number };
  readonly events: number;
  /** The most of one state directory, each of which forgets its own. */
  readonly mostEvents: number;
  readonly logBytes: number;
}

/** Look the whole file over, changing nothing. Null: there is none, or it is empty. Rejects when it cannot be read at all. */
export async function checkSqliteStore(path: string): Promise<StoreHealth | null> {
  const at = fingerprint(path);
  if (at === null) return null;
  await using view = await openView(path, at);
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

/** How far the schema is, changing nothing. */
export function sqliteMigrations(path: string): MigrationStatus {
  const at = fingerprint(path);
  if (at === null) return statusOf(placeOf(path), null);
  try {
    const db = openReadOnly(path, at, defaults.storeBusyMs);
    try {
      return statusOf(placeOf(path), appliedTo(db, path));
    } finally {
      db.close();
    }
  } catch (error) {
    throw translateSqliteError(error, path);
  }
}
