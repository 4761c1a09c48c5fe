import { isObject } from "./message.js";

/** Answers that are used without a further look. The rest of an answer is the agent's to get right, and only shown. */
const requiredFields: Readonly<
  Record<string, { readonly field: string; readonly type: "number" | "string" }>
> = {
  initialize: { field: "protocolVersion", type: "number" },
  "session/new": { field: "sessionId", type: "string" },
  "session/prompt": { field: "stopReason", type: "string" },
};

/** What is wrong with an answer; null: nothing. */
export function invalidResult(method: string, result: unknown): string | null {
  const need = requiredFields[method];
  if (need === undefined) return null;
  if (isObject(result) && typeof result[need.field] === need.type) return null;
  return `no ${need.field}`;
}
