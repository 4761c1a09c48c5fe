import type { Insertable } from "kysely";
import { knownColumns } from "./migrations.js";

/** How a field is stored, if it is not the value of the column with the field's name in snake case. */
type FieldForm =
  | { readonly kind: "json" | "nullable-json" | "flag" }
  | { readonly kind: "column"; readonly name: string }
  | { readonly kind: "columns"; readonly names: Readonly<Record<string, string>> };

/** JSON text. */
export const json = { kind: "json" } as const;

/** JSON text, or NULL for null. */
export const nullableJson = { kind: "nullable-json" } as const;

/** A boolean, as 1 or 0. */
export const flag = { kind: "flag" } as const;

/** A column with another name. */
export function column<const Name extends string>(name: Name) {
  return { kind: "column", name } as const;
}

/** An object with one column per member. The object is null if the column of the first member is NULL. */
export function columns<const Names extends Readonly<Record<string, string>>>(names: Names) {
  return { kind: "columns", names } as const;
}

/** Fields that a column cannot hold as they are. They must have a form. */
type StructuredField<Entity> = {
  [Field in keyof Entity]-?: Entity[Field] extends string | number | null ? never : Field;
}[keyof Entity];

type FieldForms<Entity> = { readonly [Field in StructuredField<Entity>]: FieldForm } & {
  readonly [Field in keyof Entity]?: FieldForm;
};

type SnakeCase<Name> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeCase<Rest>}`
  : "";

type FormOf<Field, Forms> = Field extends keyof Forms ? Forms[Field] : undefined;

type ColumnName<Field, Form> = Form extends { readonly kind: "columns" }
  ? never
  : Form extends { readonly name: infer Name extends string }
    ? Name
    : SnakeCase<Field>;

type ColumnValue<Value, Form> = Form extends { readonly kind: "json" }
  ? string
  : Form extends { readonly kind: "nullable-json" }
    ? string | null
    : Form extends { readonly kind: "flag" }
      ? 0 | 1
      : Value;

type MemberColumns<Value, Form> = Form extends { readonly names: infer Names }
  ? {
      -readonly [Member in keyof Names & keyof NonNullable<Value> as Names[Member] & string]:
        | NonNullable<Value>[Member]
        | null;
    }
  : never;

type Intersection<Union> = (Union extends unknown ? (each: Union) => void : never) extends (
  all: infer All,
) => void
  ? All
  : never;

type Columns<Entity, Forms> = {
  -readonly [Field in keyof Entity as ColumnName<Field, FormOf<Field, Forms>>]: ColumnValue<
    Entity[Field],
    FormOf<Field, Forms>
  >;
} & Intersection<
  { [Field in keyof Entity]-?: MemberColumns<Entity[Field], FormOf<Field, Forms>> }[keyof Entity]
>;

/** The columns of a table that hold the fields of its record. */
export type ColumnsOf<Mapping extends { readonly row: unknown }> = Mapping["row"];

/** Maps the records of an entity to the rows of its table and back. Rows and records name their own fields. */
export class TableMapping<Entity, Row> {
  /** Type of a row; never set. */
  declare readonly row: Row;
  readonly #forms: ReadonlyMap<string, FieldForm>;
  /** Field by column, without columns that are no field or are read with another column. */
  readonly #fields: Map<string, string>;

  constructor(
    table: string,
    forms: Readonly<Record<string, FieldForm | undefined>>,
    internal: readonly string[],
  ) {
    const listed = Object.entries(forms).filter(
      (entry): entry is [string, FieldForm] => entry[1] !== undefined,
    );
    this.#forms = new Map(listed);
    // A newer build may have added columns. They are no part of the record here.
    this.#fields = new Map(Array.from(knownColumns(table), (name) => [name, camelCase(name)]));
    for (const name of internal) this.#fields.delete(name);
    for (const [field, form] of listed) {
      if (form.kind === "column") this.#fields.set(form.name, field);
      if (form.kind === "columns")
        for (const [at, name] of Object.values(form.names).entries())
          if (at === 0) this.#fields.set(name, field);
          else this.#fields.delete(name);
    }
  }

  /** The columns of the fields that `part` has. */
  toColumns(part: Partial<Entity>): Insertable<Row> {
    const row: Record<string, unknown> = {};
    for (const [field, value] of Object.entries(part)) {
      const form = this.#forms.get(field);
      if (form?.kind === "columns") {
        const object = value as Readonly<Record<string, unknown>> | null;
        for (const [member, name] of Object.entries(form.names)) row[name] = object?.[member] ?? null;
      } else row[form?.kind === "column" ? form.name : snakeCase(field)] = encode(form, value);
    }
    return row as Insertable<Row>;
  }

  /** The record of a row. Columns that are no field of the record are left out. */
  toRecord(row: Readonly<Partial<Row>>): Entity {
    const record: Record<string, unknown> = {};
    for (const [name, value] of Object.entries(row)) {
      const field = this.#fields.get(name);
      if (field === undefined) continue;
      const form = this.#forms.get(field);
      record[field] = form?.kind === "columns" ? readMembers(form.names, row, value) : decode(form, value);
    }
    return record as Entity;
  }

  /** The record of the first row that a query finds; null: there is none. */
  async first(query: {
    executeTakeFirst(): Promise<Readonly<Partial<Row>> | undefined>;
  }): Promise<Entity | null> {
    const row = await query.executeTakeFirst();
    return row === undefined ? null : this.toRecord(row);
  }

  /** The records of all rows that a query finds. */
  async list(query: { execute(): Promise<readonly Readonly<Partial<Row>>[]> }): Promise<readonly Entity[]> {
    return (await query.execute()).map((row) => this.toRecord(row));
  }
}

/** Defines the mapping of an entity to a table. `internal` names columns that are no field of the record. */
export function mapTable<Entity>(table: string) {
  return <const Forms extends FieldForms<Entity>>(
    forms: Forms,
    internal: readonly string[] = [],
  ): TableMapping<Entity, Columns<Entity, Forms>> => new TableMapping(table, forms, internal);
}

function readMembers(names: Readonly<Record<string, string>>, row: object, first: unknown): object | null {
  if (first === null) return null;
  const values = row as Readonly<Record<string, unknown>>;
  return Object.fromEntries(Object.entries(names).map(([member, name]) => [member, values[name]]));
}

function camelCase(name: string): string {
  return name.replaceAll(/_[a-z]/g, (letter) => letter.slice(1).toUpperCase());
}

function snakeCase(field: string): string {
  return field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function encode(form: FieldForm | undefined, value: unknown): unknown {
  if (form?.kind === "json") return JSON.stringify(value);
  if (form?.kind === "nullable-json")
    return value === null || value === undefined ? null : JSON.stringify(value);
  return form?.kind === "flag" ? (value === true ? 1 : 0) : value;
}

function decode(form: FieldForm | undefined, value: unknown): unknown {
  if (form?.kind === "json" || form?.kind === "nullable-json")
    return value === null ? null : (JSON.parse(value as string) as unknown);
  return form?.kind === "flag" ? value === 1 : value;
}
