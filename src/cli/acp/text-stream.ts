import { sanitizeText } from "../../output/sanitize.js";

/** The first half of a line end or of a character. */
const HALF = /[\r\ud800-\udbff]$/;
/** An escape sequence and what follows it. */
const SEQUENCE = /\x1b[^\x07\x1b\n]{0,255}$/;
const WHOLE = /^\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-Z\\^-~])/;

/** An agent's text, in pieces, safe to show: a sequence that is cut in two is still taken out whole. */
export class TextStream {
  #held = "";

  push(piece: string): string {
    const text = this.#held + piece;
    this.#held = unfinished(text);
    return sanitizeText(text.slice(0, text.length - this.#held.length));
  }

  /** What never was finished. */
  flush(): string {
    const rest = sanitizeText(this.#held);
    this.#held = "";
    return rest;
  }
}

/** What may be the beginning of something that the next piece ends. */
function unfinished(text: string): string {
  const [half] = HALF.exec(text) ?? [];
  if (half !== undefined) return half;
  const [sequence = ""] = SEQUENCE.exec(text) ?? [];
  return WHOLE.test(sequence) ? "" : sequence;
}
