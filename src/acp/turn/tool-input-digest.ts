import { createHash } from "node:crypto";
import { isObject } from "../wire/message.js";

/**
 * The members of a tool call's input that name what is executed, as agents call them. Others differ between calls that
 * execute the same: ids, descriptions, timeouts.
 */
const EXECUTED = ["args", "cmd", "code", "command", "commands", "script"];

/** The SHA-256 of the canonical JSON of what a tool call executes. Null: its input does not name it. */
export function digestInput(rawInput: unknown): string | null {
  if (!isObject(rawInput)) return null;
  const executed = Object.entries(rawInput).filter(
    ([name, value]) =>
      EXECUTED.includes(name) && (typeof value === "string" || (typeof value === "object" && value !== null)),
  );
  if (executed.length === 0) return null;
  const canonical = JSON.stringify(sortMembers(Object.fromEntries(executed)));
  return createHash("sha256").update(canonical).digest("hex");
}

/** The recursion is bounded, because the frames of an agent are. */
function sortMembers(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortMembers);
  if (!isObject(value)) return value;
  const members = Object.entries(value).map(([name, inner]) => [name, sortMembers(inner)] as const);
  return Object.fromEntries(members.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
