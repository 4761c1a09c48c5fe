import { sql } from "kysely";
import type { RawBuilder } from "kysely";
import type { SqlDialect } from "../sql/engine.js";

/**
 * Milliseconds on the server's clock. Not now(), which stands still in a transaction: one that waited for a lock would
 * write a lease of the past. Nor extract(), which reckons in decimals, for every row anew.
 */
export const SERVER_CLOCK = "floor(date_part('epoch', clock_timestamp()) * 1000)::bigint";

export const postgresDialect: SqlDialect = {
  now: () => sql.raw<number>(SERVER_CLOCK),
  jsonEntries: (column) => sql`json_each_text(${withoutUnreadableEscapes(column)}::json)`,
  jsonItems: (column) => sql`json_array_elements_text(${sql.ref(column)}::json)`,
  lockShared: sql`for share`,
  lockSkipLocked: sql`for update skip locked`,
  shared: true,
};

/** Escapes of what no text can hold (NUL, half a surrogate pair) as what a parameter would have become. */
function withoutUnreadableEscapes(column: string): RawBuilder<string> {
  const unreadable = String.raw`(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})`;
  return sql`regexp_replace(${sql.ref(column)}, ${sql.lit(unreadable)}, ${sql.lit(String.raw`\1\\ufffd`)}, 'g')`;
}
