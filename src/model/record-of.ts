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
