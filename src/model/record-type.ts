import type { z } from "zod";

/**
 * The record type of a schema: its value, read-only at every level. Zod's own `.readonly()` would mark every field
 * `readOnly` in the OpenAPI document.
 */
export type RecordOf<Schema extends z.ZodType> = DeepReadonly<z.infer<Schema>>;

type DeepReadonly<Value> = Value extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : Value extends object
    ? { readonly [Field in keyof Value]: DeepReadonly<Value[Field]> }
    : Value;

/** Drops properties with the value undefined, as exactOptionalPropertyTypes requires. */
export function omitUndefined<T extends object>(options: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as never;
}
