import { lastChars } from "./cut.js";

/** The newest of a text that is written on and on. */
export class TextTail {
  readonly #maxChars: number;
  #text = "";
  /** Characters written in all. */
  written = 0;

  constructor(maxChars: number) {
    this.#maxChars = maxChars;
  }

  append(text: string): void {
    this.written += text.length;
    this.#text += lastChars(text, this.#maxChars);
    if (this.#text.length > 2 * this.#maxChars) this.#text = this.text;
  }

  get text(): string {
    // Not beginning in the middle of a surrogate pair.
    return lastChars(this.#text, this.#maxChars).replace(/^[\uDC00-\uDFFF]/, "");
  }

  /** Characters that are not in `text`. */
  get dropped(): number {
    return this.written - this.text.length;
  }
}
