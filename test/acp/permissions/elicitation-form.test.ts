import { expect, test } from "vitest";
import {
  describeField,
  parseContent,
  parseElicitation,
} from "../../../src/acp/permissions/elicitation-form.js";
import type { ContentValue, FormField } from "../../../src/model/acp/elicitation.js";

function fieldOf(property: Readonly<Record<string, unknown>>): FormField {
  const requestedSchema = { type: "object", properties: { it: property }, required: ["it"] };
  const parsed = parseElicitation({ mode: "form", message: "?", requestedSchema });
  return parsed?.fields[0] ?? expect.fail("it is not a form");
}

const TITLED = [{ const: "a", title: "First" }, { const: "b" }];

const values: readonly (readonly [Readonly<Record<string, unknown>>, ContentValue, ContentValue | RegExp])[] =
  [
    [{ type: "string" }, "x", "x"],
    [{ type: "string" }, 1, /is not a text/],
    [{ type: "string", minLength: 2 }, "é", /needs at least 2 characters/],
    [{ type: "string", maxLength: 2 }, "abc", /at most 2 characters/],
    [{ type: "string", pattern: "^a+$" }, "aa", "aa"],
    [{ type: "string", pattern: "^a+$" }, "ab", /does not match/],
    [{ type: "string", pattern: "(" }, "(", /does not match/],
    [{ type: "string", format: "email" }, "ada@example.org", "ada@example.org"],
    [{ type: "string", format: "email" }, "ada", /is not a valid email/],
    [{ type: "string", format: "uri" }, "no uri", /is not a valid uri/],
    [{ type: "string", format: "date" }, "2026-11-31", /is not a valid date/],
    [{ type: "string", format: "date-time" }, "2026-11-18T10:00:00+01:00", "2026-11-18T10:00:00+01:00"],
    [{ type: "string", format: "constructor" }, "x", "x"],
    [{ type: "string", oneOf: TITLED }, "b", "b"],
    [{ type: "string", oneOf: TITLED }, "c", /is not one of a, b/],
    [{ type: "integer" }, "12", 12],
    [{ type: "integer" }, "1.5", /is not an integer/],
    [{ type: "integer" }, "", /is not an integer/],
    [{ type: "number", minimum: 0.5 }, "0.25", /needs at least 0.5/],
    [{ type: "number" }, "1e3", 1000],
    [{ type: "number" }, "Infinity", /is not a number/],
    [{ type: "boolean" }, "true", true],
    [{ type: "boolean" }, "yes", /is not true or false/],
    [{ type: "array", items: { enum: ["a", "b"] } }, "a", ["a"]],
    [{ type: "array", items: { anyOf: TITLED }, minItems: 2 }, ["a"], /needs at least 2 values/],
    [{ type: "array", items: { anyOf: TITLED } }, ["c"], /is not one of/],
  ];

test.each(values)("a field %j with the value %j becomes %s", (property, given, expected) => {
  const parse = () => parseContent([fieldOf(property)], { it: given });
  if (expected instanceof RegExp) expect(parse).toThrow(expected);
  else expect(parse()).toEqual({ it: expected });
});

test("a pattern that takes for ever does not stop the gateway", () => {
  const field = fieldOf({ type: "string", pattern: "^(a+)+$" });
  expect(() => parseContent([field], { it: `${"a".repeat(60)}b` })).toThrow("does not match");
});

test("a field is described with its rules", () => {
  const field = fieldOf({
    type: "string",
    title: "Stage",
    description: "where",
    oneOf: TITLED,
    default: "a",
  });
  expect(describeField(field)).toBe("Stage: where (string; required; default a) one of: a (First), b");
  expect(describeField(fieldOf({ type: "array", minItems: 1, maxItems: 2 }))).toBe(
    "(list; required; at least 1, at most 2 values)",
  );
});

test("an optional field may be left out, and a default stands in for a missing value", () => {
  const optional = { ...fieldOf({ type: "string" }), required: false };
  expect(parseContent([optional], {})).toEqual({});
  expect(parseContent([fieldOf({ type: "boolean", default: false })], {})).toEqual({ it: false });
});
