import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { hostMonotonicMs } from "../../src/store/sqlite/clock.js";
import { askerOf } from "../store/postgres/asker.js";
import type { PostgresDatabase } from "../store/postgres/server.js";

export type Value = string | number | null;

/** Where the records of a house are, with a hand in them. */
export interface Records {
  /** Null: in the state directory's own file. */
  readonly url: string | null;
  /** By a connection of our own, behind everybody's back. */
  sql(home: string, statement: string, ...values: readonly Value[]): Record<string, unknown>[];
  /** By the clock of leases. */
  now(): number;
  /** When somebody has been killed, and before another takes up what is left. */
  struck?(): Promise<void>;
  /** What goes with the records. */
  dispose?(): Promise<void>;
  /** Whoever opens a store meanwhile opens this one. */
  around<T>(open: () => Promise<T>): Promise<T>;
}

export const ownFile: Records = {
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
  around: (open) => open(),
};

/** The environment is one for all houses of this process. */
let turn: Promise<unknown> = Promise.resolve();

/** `direct` is where the database is now, when `url` leads there in another way. */
export function recordsIn({ url }: Pick<PostgresDatabase, "url">, direct = () => url): Records {
  const ask: ReturnType<typeof askerOf> = (text, values) => askerOf(direct())(text, values);
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
    around<T>(open: () => Promise<T>) {
      const opened = turn.then(async () => {
        process.env["HOLDFAST_DATABASE_URL"] = url;
        try {
          return await open();
        } finally {
          delete process.env["HOLDFAST_DATABASE_URL"];
        }
      });
      turn = opened.catch(() => {});
      return opened;
    },
  };
}
