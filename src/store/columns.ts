/** How a field stands in its column: as it is, as JSON, as JSON that is not there for null, or as 1 or 0. */
type ColumnForm = "plain" | "json" | "json?" | "flag";
export type Columns<Row, Table> = {
  readonly [Field in keyof Row]: readonly [keyof Table & string, ColumnForm];
};

export function toColumns<Row, Table>(
  columns: Columns<Row, Table>,
  part: Partial<Row>,
): Record<string, unknown> {
  return Object.fromEntries(
    (Object.keys(part) as (keyof Row)[]).map((field) => {
      const [column, form] = columns[field];
      return [column, encodeColumn(form, part[field])];
    }),
  );
}

export function toFields<Row, Table>(
  columns: Columns<Row, Table>,
  row: Record<keyof Table & string, unknown>,
): Row {
  return Object.fromEntries(
    (Object.keys(columns) as (keyof Row)[]).map((field) => {
      const [column, form] = columns[field];
      return [field, decodeColumn(form, row[column])];
    }),
  ) as Row;
}

function encodeColumn(form: ColumnForm, value: unknown): unknown {
  if (form === "plain") return value;
  if (form === "flag") return value === true ? 1 : 0;
  return form === "json?" && (value === null || value === undefined) ? null : JSON.stringify(value);
}

function decodeColumn(form: ColumnForm, value: unknown): unknown {
  if (form === "plain") return value;
  if (form === "flag") return value === 1;
  return value === null ? null : (JSON.parse(value as string) as unknown);
}
