import { z } from "zod";

export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** Keywords that say nothing to a model, or that strict function calling refuses. The server checks them all the same. */
const LEFT_OUT = new Set(["$schema", "default", "propertyNames", "minLength", "maxLength"]);

/**
 * The JSON Schema of an object, in the subset that strict function calling accepts: an object without further properties,
 * no references, and `type: [T, "null"]` for a value that may be left out or null.
 */
export function objectSchema(schema: z.ZodType, io: "input" | "output"): JsonSchema & { type: "object" } {
  const made = z.toJSONSchema(schema, { io, reused: "inline", unrepresentable: "any" });
  return { ...(simplify(made) as JsonSchema), type: "object" };
}

function simplify(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(simplify);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).flatMap(([keyword, content]) =>
    LEFT_OUT.has(keyword) || isUnboundedInteger(keyword, content)
      ? []
      : [[keyword, keyword === "properties" ? mapValues(content as object) : simplify(content)] as const],
  );
  return joinNull(Object.fromEntries(entries));
}

function mapValues(properties: object): object {
  return Object.fromEntries(Object.entries(properties).map(([name, each]) => [name, simplify(each)]));
}

/** `anyOf: [T, null]` as `type: [T, "null"]`. */
function joinNull(schema: JsonSchema): JsonSchema {
  const { anyOf, ...rest } = schema;
  if (!Array.isArray(anyOf) || anyOf.length !== 2) return schema;
  const [some, none] = anyOf as [JsonSchema, JsonSchema];
  if (none["type"] !== "null" || typeof some["type"] !== "string") return schema;
  const choices = some["enum"];
  return {
    ...some,
    ...rest,
    type: [some["type"], "null"],
    ...(Array.isArray(choices) ? { enum: [...(choices as unknown[]), null] } : {}),
  };
}

/** zod gives every integer the range of a double. */
function isUnboundedInteger(keyword: string, content: unknown): boolean {
  return (
    (keyword === "minimum" || keyword === "maximum") &&
    Math.abs(content as number) === Number.MAX_SAFE_INTEGER
  );
}
