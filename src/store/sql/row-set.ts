import { type RawBuilder, sql } from "kysely";
import { columnTypes } from "./migrations.js";
import type { Placeholders } from "./statement-cache.js";

type ColumnType = "text" | "bigint";
type Row = Readonly<Record<string, unknown>>;

/** An array for each column. */
export type RowSetValues = Readonly<Record<string, unknown>>;

/**
 * Rows that a PostgreSQL statement reads from one array per column. So a statement has the same text for any number of
 * rows, and is planned once.
 */
export interface RowSet {
  /** The values to bind. */
  readonly values: RowSetValues;
  readonly columns: readonly string[];
  /** The rows as an item of a from clause, under the name of the set. */
  from(places: Placeholders<RowSetValues>): RawBuilder<unknown>;
}

/** `types`: the types of columns that the table does not have; without a table, of all columns. All rows have the columns of the first. */
export function rowSet(
  name: string,
  table: string | null,
  rows: readonly Row[],
  types: Readonly<Record<string, ColumnType>> = {},
): RowSet {
  const known = table === null ? null : columnTypes(table);
  const columns = Object.keys(rows[0] ?? {});
  const placeOf = (column: string): string => `${name} ${column}`;
  return {
    values: Object.fromEntries(
      columns.map((column) => [placeOf(column), rows.map((row) => row[column] ?? null)]),
    ),
    columns,
    from: (places) => {
      const arrays = columns.map((column) => {
        const type = types[column] ?? known?.get(column);
        if (type === undefined) throw new Error(`${name} has no type for the column ${column}`);
        return sql`${places[placeOf(column)]}::${sql.raw(type)}[]`;
      });
      return sql`unnest(${sql.join(arrays)}) as ${sql.ref(name)} (${sql.join(columns.map((column) => sql.ref(column)))})`;
    },
  };
}

/** Column names, each with a prefix. */
export function columnList(columns: readonly string[], of?: string): RawBuilder<unknown> {
  return sql.join(columns.map((column) => sql.ref(of === undefined ? column : `${of}.${column}`)));
}

/** `column = given.column, …` */
export function assignments(columns: readonly string[], of: string): readonly RawBuilder<unknown>[] {
  return columns.map((column) => sql`${sql.ref(column)} = ${sql.ref(`${of}.${column}`)}`);
}
