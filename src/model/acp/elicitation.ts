import { z } from "zod";
import type { RecordOf } from "../record-type.js";

const contentValue = z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]);

/** A field of a form, as the agent describes it. */
const formFieldSchema = z.object({
  name: z.string(),
  type: z.enum(["string", "number", "integer", "boolean", "array"]),
  title: z.string().nullable(),
  description: z.string().nullable(),
  required: z.boolean(),
  /** Used if no value is given; null: none. */
  default: contentValue.nullable(),
  /** The values that may be given; null: any. */
  choices: z.array(z.object({ value: z.string(), title: z.string().nullable() })).nullable(),
  /** Bounds of a number, of the characters of a string, or of the number of values of an array. */
  min: z.number().nullable(),
  max: z.number().nullable(),
  /** A regular expression for a string. */
  pattern: z.string().nullable(),
  /** `email`, `uri`, `date` or `date-time`; others are not checked. */
  format: z.string().nullable(),
});

/** A question of an agent to its user: the fields of a form, or an address to open. */
export const elicitationSchema = z.object({
  mode: z.enum(["form", "url"]),
  message: z.string(),
  /** Null: it is a form. */
  url: z.string().nullable(),
  fields: z.array(formFieldSchema),
});

/** The values of a form's fields by their names. */
export const elicitationContentSchema = z.record(z.string().max(1_000), contentValue);

export type FormField = RecordOf<typeof formFieldSchema>;
export type Elicitation = RecordOf<typeof elicitationSchema>;
export type ElicitationContent = RecordOf<typeof elicitationContentSchema>;
export type ContentValue = ElicitationContent[string];
