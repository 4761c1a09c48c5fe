import { sanitizeText } from "../../output/sanitize.js";

/** What may be the beginning of something that the next piece ends: a line end, an escape sequence, a character. */
const UNFINISHED = /(?:\r|\x1b[^\x07\x1b\n]{0,255}|[\ud800-\udbff])$/;
const WHOLE_SEQUENCE = /\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-Z\\^-~])/;

/** An agent's text, in pieces, safe to show: a sequence that is cut in two is still taken out whole. */
export class TextStream {
  #held = "";

  push(piece: string): string {
    const text = this.#held + piece;
    const [unfinished = ""] = UNFINISHED.exec(text) ?? [];
    const held = WHOLE_SEQUENCE.test(unfinished) ? "" : unfinished;
    this.#held = held;
    return sanitizeText(text.slice(0, text.length - held.length));
  }

  /** What never was finished. */
  flush(): string {
    const rest = sanitizeText(this.#held);
    this.#held = "";
    return rest;
  }
}
