import { defaults } from "../../defaults.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { redactText } from "../../text/redact.js";

/** Of what an agent wrote, for people: one line, bounded, secrets hidden, nothing in it that a terminal obeys. */
export function redactedExcerpt(
  input: Uint8Array | string,
  chars: number = defaults.acpExcerptChars,
): string {
  // Cut before it is looked through: the whole may be megabytes. Four bytes are the most a character has.
  const text = typeof input === "string" ? input : Buffer.from(input.subarray(0, 4 * chars)).toString();
  const line = sanitizeLine(redactText(text.slice(0, 2 * chars)));
  return line.length > chars || text.length > 2 * chars
    ? `${line.slice(0, chars - 1).replace(/[\uD800-\uDBFF]$/, "")}…`
    : line;
}
