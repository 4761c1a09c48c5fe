import type { z } from "zod";
import { BadInput } from "../errors.js";
import { isSecretName } from "../text/redact.js";
import { truncate } from "../text/truncate.js";

export function settingKey(path: readonly PropertyKey[]): string {
  return path.map((part) => (typeof part === "number" ? part + 1 : String(part))).join(".");
}

export function valueAt(path: readonly PropertyKey[], file: unknown): unknown {
  return path.reduce<unknown>(
    (inside, part) => (inside as Record<PropertyKey, unknown> | undefined)?.[part],
    file,
  );
}

const TYPE_NAMES: Readonly<Record<string, string>> = {
  int: "a whole number",
  number: "a whole number",
  string: "text",
  boolean: "true or false",
  object: "a table",
  record: "a table",
  array: "a list",
};

/** How much of a value a message quotes. */
const MAX_QUOTED = 60;

/** Describes what is wrong with one value of a parsed file. */
export function describeIssue(issue: z.core.$ZodIssue, file: unknown): string {
  const value = valueAt(issue.path, file);
  if (value === undefined && issue.path.length > 0) return "is missing";
  const whole = JSON.stringify(value);
  const hidden = issue.path.some((part) => isSecretName(String(part)));
  const said = hidden ? "***" : truncate(whole, MAX_QUOTED);
  switch (issue.code) {
    case "invalid_value":
      return `is ${said}; it may be ${joinWithOr(issue.values.map(String))}`;
    case "invalid_type":
      return `is ${said}; it must be ${TYPE_NAMES[issue.expected] ?? issue.expected}`;
    case "too_small":
      return issue.origin in UNITS ? "must not be empty" : `must be ${issue.minimum} or more`;
    case "too_big":
      return `must be at most ${issue.maximum}${UNITS[issue.origin] ?? ""}`;
    case "invalid_key":
      return issue.issues[0]?.message ?? issue.message;
    // The schema has its own message for these.
    case "custom":
    case "invalid_format":
    case "invalid_union":
    case "invalid_element":
    case "not_multiple_of":
    case "unrecognized_keys":
      return issue.message;
  }
}

const UNITS: Readonly<Record<string, string>> = { string: " characters long", array: " entries long" };

function joinWithOr(words: readonly string[]): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}

interface ConfigProblem {
  /** The line in the file; null: the setting is not in the file, or the line is unknown. */
  readonly line: number | null;
  /** The setting, with list entries counted from 1; empty: the whole file. */
  readonly key: string;
  readonly message: string;
}

/** All problems of a config file and the settings that override it. */
export class BadConfig extends BadInput {
  readonly problems: readonly ConfigProblem[];
  constructor(problems: readonly ConfigProblem[], message: string) {
    super("config", message);
    this.problems = problems;
  }
}
