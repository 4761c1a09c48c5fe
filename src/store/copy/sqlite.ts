import { DatabaseSync, type DatabaseSyncInstance } from "@photostructure/sqlite";
import { hostMonotonicMs } from "../../async/clock.js";
import { StateUnusable } from "../../errors.js";
import { translateSqliteError } from "../../home/sqlite-errors.js";
import { requireCurrentSchema } from "../sqlite/migrate.js";
import { openSqliteStore } from "../sqlite/open.js";
import { isSameFingerprint, openReadOnlyDatabase, readFingerprint } from "../sqlite/open-for-reading.js";
import { BATCH_ROWS, type TableReader, type TableRow, type TableWriter } from "./table-io.js";

/** How long to wait for other writers; there should be none. */
const BUSY_MS = 5_000;

/** Alias of the rowid, beside the table's own columns. */
const ROWID_ALIAS = "place_in_file";

/** Null: the store has no tables. */
export function openSqliteReader(path: string): TableReader | null {
  const before = readFingerprint(path);
  if (before === null) return null;
  return translatingErrors(path, () => {
    const db = openReadOnlyDatabase(path, before, BUSY_MS);
    try {
      if (requireCurrentSchema(db, path) === null) {
        db.close();
        return null;
      }
      // Begins the snapshot for all reads.
      db.exec("begin; select count(*) from sqlite_schema");
    } catch (error) {
      db.close();
      throw error;
    }
    return {
      ...tableReader(db, path),
      async requireConsistentRead() {
        // A file without a log is read without locks.
        if (before.log || isSameFingerprint(before, readFingerprint(path))) return;
        throw new StateUnusable(path, `${path} was changed while it was read. Try again.`);
      },
      async [Symbol.asyncDispose]() {
        // Prepared statements keep a closed database open, with its snapshot.
        if (db.isTransaction) db.exec("rollback");
        db.close();
      },
    };
  });
}

/** Creates or migrates the store first. */
export async function openSqliteWriter(path: string): Promise<TableWriter> {
  await (await openSqliteStore({ path }))[Symbol.asyncDispose]();
  return translatingErrors(path, () => {
    const db = new DatabaseSync(path, { timeout: BUSY_MS, enableForeignKeyConstraints: true });
    // The commit must be on disk before it is reported.
    db.exec("pragma synchronous = full; begin immediate");
    return {
      ...tableReader(db, path),
      toStorable: (value) => value,
      async insert(table, columns, rows) {
        translatingErrors(path, () => {
          const places = columns.map(() => "?").join(", ");
          const insert = db.prepare(`insert into ${table} (${columns.join(", ")}) values (${places})`);
          for (const row of rows) insert.run(...columns.map((column) => row[column] ?? null));
        });
      },
      async setLastNumber(table, highest) {
        translatingErrors(path, () => {
          db.exec(`delete from sqlite_sequence where name = '${table}'`);
          db.prepare("insert into sqlite_sequence (name, seq) values (?, ?)").run(table, highest);
        });
      },
      async commit() {
        translatingErrors(path, () => db.exec("commit"));
        // A backup is then one file; the log is needed only while another process reads.
        db.exec("pragma wal_checkpoint(truncate)");
      },
      async [Symbol.asyncDispose]() {
        if (db.isTransaction) db.exec("rollback");
        db.close();
      },
    };
  });
}

function tableReader(db: DatabaseSyncInstance, path: string): Omit<TableReader, typeof Symbol.asyncDispose> {
  const query = (sql: string): TableRow[] =>
    translatingErrors(path, () => db.prepare(sql).all() as TableRow[]);
  return {
    query: async (sql) => query(sql),
    // In pages: an unfinished iterator outlives its database and crashes the process.
    async *rows(table) {
      for (let last = 0, full = true; full;) {
        const page = query(
          `select rowid as ${ROWID_ALIAS}, * from ${table} where rowid > ${last} order by rowid limit ${BATCH_ROWS}`,
        );
        full = page.length === BATCH_ROWS;
        last = Number(page.at(-1)?.[ROWID_ALIAS] ?? last);
        if (page.length > 0) yield page;
      }
    },
    columns: async (table) =>
      query(`select name from pragma_table_info('${table}')`).map(({ name }) => String(name)),
    async lastNumber(table) {
      const [made] = query(
        `select 1 from sqlite_schema where name = '${table}' and sql like '% autoincrement %'`,
      );
      if (made === undefined) return null;
      const [found] = query(`select seq from sqlite_sequence where name = '${table}'`);
      return Number(found?.["seq"] ?? 0);
    },
    now: async () => hostMonotonicMs(),
    connectedInstances: async () => [],
    requireConsistentRead: async () => {},
  };
}

function translatingErrors<Result>(path: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw translateSqliteError(error, path);
  }
}
