import { sql } from "kysely";
import type { Words } from "../sql/engine.js";

export const postgresWords: Words = {
  // Not now(), which stands still in a transaction: one that waited for a lock would write a lease of the past.
  now: () => sql<number>`floor(extract(epoch from clock_timestamp()) * 1000)::bigint`,
  members: (column) => sql`json_each_text(${sql.ref(column)}::json)`,
  items: (column) => sql`json_array_elements_text(${sql.ref(column)}::json)`,
  hold: sql`for share`,
  oneClock: true,
};
