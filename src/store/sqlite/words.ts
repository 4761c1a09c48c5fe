import { sql } from "kysely";
import type { Words } from "../sql/engine.js";
import { hostMonotonicMs } from "./clock.js";

export const sqliteWords: Words = {
  now: () => sql<number>`${hostMonotonicMs()}`,
  members: (column) => sql`json_each(${sql.ref(column)})`,
  items: (column) => sql`json_each(${sql.ref(column)})`,
  // There is one writer at a time, and it is this one.
  hold: sql``,
  take: sql``,
  shared: false,
};
