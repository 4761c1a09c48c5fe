import { sql } from "kysely";
import type { SqlDialect } from "../sql/engine.js";
import { hostMonotonicMs } from "./clock.js";

export const sqliteDialect: SqlDialect = {
  now: () => sql<number>`${hostMonotonicMs()}`,
  jsonEntries: (column) => sql`json_each(${sql.ref(column)})`,
  jsonItems: (column) => sql`json_each(${sql.ref(column)})`,
  // There is one writer at a time, and it is this one.
  lockShared: sql``,
  lockSkipLocked: sql``,
  shared: false,
};
