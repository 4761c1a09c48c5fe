import { defaults } from "../../defaults.js";
import { LineBuilder } from "../../output/line-builder.js";
import { sanitizeText } from "../../text/sanitize.js";
import { redactText } from "../../text/redact.js";

const LINE_FEED = 0x0a;

/**
 * The last lines of an agent's stderr, for people. Lines are kept whole or cut at their end: without its beginning, a
 * secret in a line could not be recognized.
 */
export class StderrTail {
  readonly #builder = new LineBuilder(defaults.acpStderrLineBytes, true);
  #lines: string[] = [];
  #chars = 0;
  /** Lines that were dropped. */
  dropped = 0;

  push(bytes: Uint8Array): void {
    let start = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
      this.#builder.push(bytes.subarray(start, end));
      this.#addLine();
      start = end + 1;
    }
    this.#builder.push(bytes.subarray(start));
  }

  /** Call at the end of the stream, to add an unfinished line. */
  finish(): void {
    this.#addLine();
  }

  get text(): string {
    return sanitizeText(redactText(this.#lines.join("\n")));
  }

  #addLine(): void {
    const { bytes, cut } = this.#builder.take();
    if (bytes.length === 0) return;
    const line = Buffer.from(bytes).toString() + (cut > 0 ? "…" : "");
    this.#lines.push(line);
    this.#chars += line.length + 1;
    // Half is dropped at once when twice the bound is reached: dropping one line at a time would be quadratic.
    if (this.#chars <= 2 * defaults.acpStderrBytes) return;
    let from = 0;
    for (; this.#chars > defaults.acpStderrBytes; from++) this.#chars -= (this.#lines[from]?.length ?? 0) + 1;
    this.dropped += from;
    this.#lines = this.#lines.slice(from);
  }
}
