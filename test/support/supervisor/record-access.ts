import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { hostMonotonicMs } from "../../../src/async/clock.js";
import type { PostgresDatabase } from "../store/postgres-server.js";
import { openSyncQuery } from "../store/postgres-sync-query.js";

export type SqlValue = string | number | null;

/** Direct access to the records of a shared home. */
export interface RecordAccess {
  /** Null: in the state directory's own file. */
  readonly url: string | null;
  /** Through a connection of its own. */
  sql(home: string, statement: string, ...values: readonly SqlValue[]): Record<string, unknown>[];
  /** The time on the clock of leases. */
  now(): number;
  /** Called after a supervisor was killed, before the next one starts. */
  struck?(): Promise<void>;
  dispose?(): Promise<void>;
  /** Stores that are opened during `open` use this database. */
  withDatabase<T>(open: () => Promise<T>): Promise<T>;
}

export const sqliteRecords: RecordAccess = {
  url: null,
  sql(home, statement, ...values) {
    const db = new DatabaseSync(join(home, "store.sqlite"), { timeout: 5_000 });
    try {
      return db.prepare(statement).all(...values) as Record<string, unknown>[];
    } finally {
      db.close();
    }
  },
  now: hostMonotonicMs,
  withDatabase: (open) => open(),
};

/** All shared homes of this process have one environment. */
let environmentLock: Promise<unknown> = Promise.resolve();

/** `direct`: the address of the database itself, if `url` is a proxy. */
export function postgresRecords({ url }: Pick<PostgresDatabase, "url">, direct = () => url): RecordAccess {
  const ask: ReturnType<typeof openSyncQuery> = (text, values) => openSyncQuery(direct())(text, values);
  return {
    url,
    sql(_, statement, ...values) {
      let count = 0;
      return ask(
        statement.replaceAll("?", () => `$${++count}`),
        values,
      );
    },
    now: () =>
      Number(ask("select floor(extract(epoch from clock_timestamp()) * 1000) as now", [])[0]?.["now"]),
    withDatabase<T>(open: () => Promise<T>) {
      const opened = environmentLock.then(async () => {
        process.env["HOLDFAST_DATABASE_URL"] = url;
        try {
          return await open();
        } finally {
          delete process.env["HOLDFAST_DATABASE_URL"];
        }
      });
      environmentLock = opened.catch(() => {});
      return opened;
    },
  };
}
