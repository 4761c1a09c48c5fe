import { runInNewContext } from "node:vm";
import { z } from "zod";
import { defaults } from "../../defaults.js";
import { BadInput } from "../../errors.js";
import type {
  ContentValue,
  Elicitation,
  ElicitationContent,
  FormField,
} from "../../model/acp/elicitation.js";
import type { LabelledText } from "../../sessions/approval-question.js";

const text = z.string().nullish();
const number = z.number().nullish();
const words = z.array(z.string()).nullish();
const titled = z.array(z.object({ const: z.string(), title: text })).nullish();

const content = z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]);

const propertySchema = z.object({
  type: z.enum(["string", "number", "integer", "boolean", "array"]),
  title: text,
  description: text,
  default: content.nullish().catch(null),
  enum: words,
  oneOf: titled,
  items: z.object({ enum: words, anyOf: titled }).nullish(),
  ...{ minLength: number, maxLength: number, minimum: number, maximum: number },
  ...{ minItems: number, maxItems: number },
  pattern: text,
  format: text,
});

const requestSchema = z.union([
  z.object({
    mode: z.literal("form").default("form"),
    message: z.string(),
    requestedSchema: z.object({
      properties: z.record(z.string(), propertySchema).default({}),
      required: words,
    }),
  }),
  z.object({ mode: z.literal("url"), message: z.string(), url: z.url({ protocol: /^https?$/ }) }),
]);

/** Null: not a question that can be shown as a whole and answered. */
export function parseElicitation(params: unknown): Elicitation | null {
  const parsed = requestSchema.safeParse(params);
  if (!parsed.success) return null;
  const { data } = parsed;
  // The address is shown with its host in ASCII, so that no letter looks like another one.
  if (data.mode === "url")
    return bounded({ mode: "url", message: data.message, url: new URL(data.url).href, fields: [] });
  const { properties, required } = data.requestedSchema;
  const fields = Object.entries(properties).map(([name, property]) =>
    toField(name, property, required?.includes(name) === true),
  );
  return bounded({ mode: "form", message: data.message, url: null, fields });
}

/** A question may be as long as the other texts of permission requests. */
function bounded(asked: Elicitation): Elicitation | null {
  const fits =
    asked.fields.length <= defaults.acpAskedOptions && JSON.stringify(asked).length <= defaults.acpAskedChars;
  return fits ? asked : null;
}

function toField(name: string, property: z.infer<typeof propertySchema>, required: boolean): FormField {
  const { type, title = null, description = null, pattern = null, format = null } = property;
  const values = property.items?.enum ?? property.enum;
  const choices = property.items?.anyOf ?? property.oneOf;
  return {
    ...{ name, type, title, description, required, pattern, format },
    default: property.default ?? null,
    choices:
      choices?.map((choice) => ({ value: choice.const, title: choice.title ?? null })) ??
      values?.map((value) => ({ value, title: null })) ??
      null,
    min: property.minimum ?? property.minLength ?? property.minItems ?? null,
    max: property.maximum ?? property.maxLength ?? property.maxItems ?? null,
  };
}

/** The details that a person reads before an answer, beside the message. */
export function elicitationDetails({ url, fields }: Elicitation): readonly LabelledText[] {
  if (url !== null) return [["address", url]];
  return fields.map((field) => [`field ${field.name}`, describeField(field)]);
}

export function describeField(field: FormField): string {
  const { type, title, description, required, choices, min, max, pattern, format } = field;
  const bounds = [...(min === null ? [] : [`at least ${min}`]), ...(max === null ? [] : [`at most ${max}`])];
  const unit = type === "string" ? " characters" : type === "array" ? " values" : "";
  const rules = [
    type === "array" ? "list" : type,
    required ? "required" : "optional",
    ...(bounds.length === 0 ? [] : [`${bounds.join(", ")}${unit}`]),
    ...(format === null ? [] : [format]),
    ...(pattern === null ? [] : [`matches ${pattern}`]),
    ...(field.default === null ? [] : [`default ${String(field.default)}`]),
  ];
  const said = [title, description].filter((each) => each !== null && each !== "").join(": ");
  const listed = choices?.map(({ value, title: shown }) => (shown === null ? value : `${value} (${shown})`));
  return [
    ...(said === "" ? [] : [said]),
    `(${rules.join("; ")})`,
    ...(listed === undefined ? [] : [`one of: ${listed.join(", ")}`]),
  ].join(" ");
}

/** The values for the agent, converted to the types of the fields. Throws if they do not fit the form. */
export function parseContent(fields: readonly FormField[], given: ElicitationContent): ElicitationContent {
  const unknown = Object.keys(given).find((name) => !fields.some((field) => field.name === name));
  if (unknown !== undefined) {
    const names = fields.map(({ name }) => name).join(", ");
    throw new BadInput(
      "answer",
      `the form has no field ${JSON.stringify(unknown)}; its fields: ${names || "none"}. Nothing was sent`,
    );
  }
  return Object.fromEntries(
    fields.flatMap((field) => {
      const value = Object.hasOwn(given, field.name) ? (given[field.name] ?? null) : field.default;
      if (value !== null) return [[field.name, parseValue(field, value)]];
      if (field.required) throw wrongAnswer(field, "is required");
      return [];
    }),
  );
}

function parseValue(field: FormField, value: ContentValue): ContentValue {
  switch (field.type) {
    case "boolean":
      if (value === true || value === "true") return true;
      if (value === false || value === "false") return false;
      throw wrongAnswer(field, "is not true or false");
    case "number":
    case "integer":
      return parseNumber(field, value);
    case "array": {
      const values = typeof value === "string" ? [value] : value;
      if (typeof values !== "object") throw wrongAnswer(field, "is not a list of texts");
      for (const each of values) assertChoice(field, each);
      assertBounds(field, values.length, "values");
      return values;
    }
    case "string":
      return parseText(field, value);
  }
}

function parseNumber(field: FormField, value: ContentValue): number {
  const parsed = typeof value === "string" && value.trim() !== "" ? Number(value) : value;
  const fits = field.type === "integer" ? Number.isSafeInteger(parsed) : Number.isFinite(parsed);
  if (typeof parsed !== "number" || !fits)
    throw wrongAnswer(field, `is not ${field.type === "integer" ? "an integer" : "a number"}`);
  assertBounds(field, parsed, "");
  return parsed;
}

const FORMATS: Readonly<Record<string, z.ZodType>> = {
  email: z.email(),
  uri: z.url(),
  date: z.iso.date(),
  "date-time": z.iso.datetime({ offset: true }),
};

function parseText(field: FormField, value: ContentValue): string {
  if (typeof value !== "string") throw wrongAnswer(field, "is not a text");
  assertChoice(field, value);
  assertBounds(field, Array.from(value).length, "characters");
  const { format, pattern } = field;
  const schema = format !== null && Object.hasOwn(FORMATS, format) ? FORMATS[format] : undefined;
  if (schema?.safeParse(value).success === false) throw wrongAnswer(field, `is not a valid ${format}`);
  if (pattern !== null && !matchesPattern(pattern, value))
    throw wrongAnswer(field, `does not match ${pattern}`);
  return value;
}

/**
 * Time for an agent's regular expression. One that never ends must not stop the gateway. A usual one takes microseconds,
 * but may wait for the processor on a loaded machine.
 */
const PATTERN_MS = 500;

/** A pattern that is invalid, or takes too long, matches nothing. */
function matchesPattern(pattern: string, value: string): boolean {
  try {
    const test = "new RegExp(pattern, 'u').test(value)";
    return runInNewContext(test, { pattern, value }, { timeout: PATTERN_MS }) === true;
  } catch {
    return false;
  }
}

function assertChoice(field: FormField, value: string): void {
  const { choices } = field;
  if (choices !== null && !choices.some((choice) => choice.value === value))
    throw wrongAnswer(field, `is not one of ${choices.map((choice) => choice.value).join(", ")}`);
}

function assertBounds(field: FormField, value: number, unit: string): void {
  const { min, max } = field;
  const of = unit === "" ? "" : ` ${unit}`;
  if (min !== null && value < min) throw wrongAnswer(field, `needs at least ${min}${of}`);
  if (max !== null && value > max) throw wrongAnswer(field, `may have at most ${max}${of}`);
}

function wrongAnswer({ name }: FormField, why: string): BadInput {
  return new BadInput("answer", `the field ${JSON.stringify(name)} ${why}; nothing was sent`);
}
