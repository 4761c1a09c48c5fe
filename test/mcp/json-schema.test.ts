import { expect, test } from "vitest";
import { tools } from "../../src/mcp/server.js";

/** What OpenAI's strict mode and the function declarations of other providers accept. */
const KEYWORDS = new Set([
  ...["type", "description", "enum", "properties", "required", "additionalProperties", "items"],
  ...["pattern", "minimum", "maximum", "minItems", "maxItems"],
]);

function problems(schema: Readonly<Record<string, unknown>>, path: string): string[] {
  const found = Object.keys(schema)
    .filter((keyword) => !KEYWORDS.has(keyword))
    .map((keyword) => `${path}: ${keyword}`);
  const {
    type,
    properties = {},
    required = [],
    additionalProperties,
    items,
  } = schema as {
    readonly type?: unknown;
    readonly properties?: Readonly<Record<string, Record<string, unknown>>>;
    readonly required?: readonly string[];
    readonly additionalProperties?: unknown;
    readonly items?: Record<string, unknown>;
  };
  const isObject = type === "object" || (Array.isArray(type) && type.includes("object"));
  if (type === undefined) found.push(`${path}: no type`);
  if (isObject && additionalProperties !== false) found.push(`${path}: further properties`);
  for (const [name, each] of Object.entries(properties)) {
    found.push(...problems(each, `${path}.${name}`));
    // A host that requires every property sends null for one that the model leaves out.
    const mayBeNull = Array.isArray(each["type"]) && each["type"].includes("null");
    if (!required.includes(name) && !mayBeNull) found.push(`${path}.${name}: optional, but not null`);
  }
  return items === undefined ? found : [...found, ...problems(items, `${path}[]`)];
}

test.each(tools.map((tool) => [tool.name, tool] as const))(
  "the arguments of %s fit strict function calling",
  (_, tool) => {
    expect(tool.inputSchema["type"]).toBe("object");
    expect(problems(tool.inputSchema, tool.name)).toEqual([]);
    expect(JSON.stringify(tool.inputSchema)).not.toMatch(/\$ref|\$schema/);
  },
);

test("there are few tools, with names that every host accepts and short descriptions", () => {
  expect(tools.length).toBeLessThanOrEqual(6);
  for (const { name, description } of tools) {
    expect(name).toMatch(/^[a-z]{1,20}$/);
    expect(description.length).toBeLessThan(600);
  }
});
