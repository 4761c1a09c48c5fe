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
  /** All columns of the table that this build knows. */
  readonly columns: readonly (keyof Row & string)[];
  readonly #forms: ReadonlyMap<string, FieldForm>;
  /** How each field is read, in the order of the columns. */
  readonly #readers: readonly FieldReader[];
  /**
   * A record of nulls. Its copies share a hidden class; V8 turns an object to which so many fields are added one by one into
   * a hash table.
   */
  readonly #template: Readonly<Record<string, null>>;

  constructor(
    table: string,
    forms: Readonly<Record<string, FieldForm | undefined>>,
    internal: readonly string[],
  ) {
    const listed = Object.entries(forms).filter(
      (entry): entry is [string, FieldForm] => entry[1] !== undefined,
    );
    this.#forms = new Map(listed);
    this.columns = Array.from(knownColumns(table)) as (keyof Row & string)[];
    // A newer build may have added columns. They are no part of the record here.
    const fields = new Map(Array.from(knownColumns(table), (name) => [name, camelCase(name)]));
    for (const name of internal) fields.delete(name);
    for (const [field, form] of listed) {
      if (form.kind === "column") fields.set(form.name, field);
      // A field with several columns is read at the first of them.
      if (form.kind === "columns")
        for (const [at, name] of Object.values(form.names).entries())
          if (at === 0) fields.set(name, field);
          else fields.delete(name);
    }
    this.#readers = Array.from(fields, ([name, field]) => ({ name, field, read: readerOf(forms[field]) }));
    const nulls = Object.fromEntries([...fields.values()].map((field) => [field, null]));
    this.#template = JSON.parse(JSON.stringify(nulls)) as Record<string, null>;
  }

  /** The columns of the fields that `part` has. */
  toColumns(part: Partial<Entity>): Insertable<Row> {
    const row: Record<string, unknown> = {};
    for (const [field, value] of Object.entries(part)) {
      const form = this.#forms.get(field);
      if (form?.kind === "columns") {
        const object = value as Readonly<Record<string, unknown>> | null;
        for (const [member, name] of Object.entries(form.names)) row[name] = object?.[member] ?? null;
      } else row[form?.kind === "column" ? form.name : columnOf(field)] = encode(form, value);
    }
    return row as Insertable<Row>;
  }

  /** The record of a row. Columns that are no field of the record are left out. */
  toRecord(row: Readonly<Partial<Row>>): Entity {
    const values = row as Readonly<Record<string, unknown>>;
    const record: Record<string, unknown> = { ...this.#template };
    for (const { name, field, read } of this.#readers) {
      const value = values[name];
      if (value === undefined) return this.#toPartialRecord(values);
      record[field] = read === null ? value : read(value, values);
    }
    return record as Entity;
  }

  /** The record of a row that lacks columns. */
  #toPartialRecord(values: Readonly<Record<string, unknown>>): Entity {
    const record: Record<string, unknown> = {};
    for (const { name, field, read } of this.#readers) {
      const value = values[name];
      if (value !== undefined) record[field] = read === null ? value : read(value, values);
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

interface FieldReader {
  /** The column; the first one of a field with several. */
  readonly name: string;
  readonly field: string;
  /** Null: the field is the value of the column. */
  readonly read: ((value: unknown, row: Readonly<Record<string, unknown>>) => unknown) | null;
}

function readerOf(form: FieldForm | undefined): FieldReader["read"] {
  if (form?.kind === "flag") return (value) => value === 1;
  if (form?.kind === "json" || form?.kind === "nullable-json")
    return (value) => (value === null ? null : (JSON.parse(value as string) as unknown));
  if (form?.kind !== "columns") return null;
  const members = Object.entries(form.names);
  return (first, row) => {
    if (first === null) return null;
    const object: Record<string, unknown> = {};
    for (const [member, name] of members) object[member] = row[name];
    return object;
  };
}

const columnNames = new Map<string, string>();

/** Cached, because every write names the columns of its fields. */
function columnOf(field: string): string {
  let name = columnNames.get(field);
  if (name === undefined) columnNames.set(field, (name = snakeCase(field)));
  return name;
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
