import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { hostMonotonicMs } from "../../../src/async/host-clock.js";
import type { PostgresDatabase } from "../store/postgres-server.js";
import { openSyncQuery } from "../store/postgres-sync-query.js";

export type SqlValue = string | number | null;

/** Where the records of a house are, with a hand in them. */
export interface RecordAccess {
  /** Null: in the state directory's own file. */
  readonly url: string | null;
  /** By a connection of our own, behind everybody's back. */
  sql(home: string, statement: string, ...values: readonly SqlValue[]): Record<string, unknown>[];
  /** By the clock of leases. */
  now(): number;
  /** When somebody has been killed, and before another takes up what is left. */
  struck?(): Promise<void>;
  /** What goes with the records. */
  dispose?(): Promise<void>;
  /** Whoever opens a store meanwhile opens this one. */
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

/** The environment is one for all houses of this process. */
let environmentLock: Promise<unknown> = Promise.resolve();

/** `direct` is where the database is now, when `url` leads there in another way. */
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
