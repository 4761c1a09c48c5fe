import { sanitizeText } from "../../text/sanitize.js";

/** The first half of a line end or of a character. */
const PARTIAL_CHARACTER = /[\r\ud800-\udbff]$/;
/** An escape sequence and what follows it. */
const OPEN_SEQUENCE = /\x1b[^\x07\x1b\n]{0,255}$/;
const COMPLETE_SEQUENCE = /^\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-Z\\^-~])/;

/** An agent's text, in pieces, safe to show: a sequence that is cut in two is still taken out whole. */
export class SanitizedTextStream {
  #incomplete = "";

  push(piece: string): string {
    const text = this.#incomplete + piece;
    this.#incomplete = incompleteTail(text);
    return sanitizeText(text.slice(0, text.length - this.#incomplete.length));
  }

  /** What never was finished. */
  flush(): string {
    const rest = sanitizeText(this.#incomplete);
    this.#incomplete = "";
    return rest;
  }
}

/** What may be the beginning of something that the next piece ends. */
function incompleteTail(text: string): string {
  const [half] = PARTIAL_CHARACTER.exec(text) ?? [];
  if (half !== undefined) return half;
  const [sequence = ""] = OPEN_SEQUENCE.exec(text) ?? [];
  return COMPLETE_SEQUENCE.test(sequence) ? "" : sequence;
}
