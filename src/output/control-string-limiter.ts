/** Characters of a control string that are passed on. Titles and queries are far shorter, and images are not drawn. */
const MAX_STRING_CHARS = 4096;

type State = "text" | "escape" | "osc" | "dcs";

/**
 * Patterns for the start of a control string or escape, for the end of a control string, and for characters that do not
 * end an escape.
 */
const STRING_START = /[\u001b\u0090\u009d]/g;
const OSC_END = /[\u0007\u0018\u001a\u001b\u0080-\u009f]/g;
const DCS_END = /[\u0018\u001a\u001b\u0080-\u009f]/g;
const C0_IN_ESCAPE = /[\0-\u0017\u0019\u001c-\u001f\u007f]/;

/**
 * Shortens control strings (OSC and DCS) in terminal output that may be split anywhere. xterm.js collects up to ten
 * million characters of one, twice, at about thirty bytes each.
 */
export class ControlStringLimiter {
  #state: State = "text";
  #passed = 0;

  push(text: string): string {
    const parts: string[] = [];
    let position = 0;
    while (position < text.length) {
      const end = this.#findNextChange(text, position);
      parts.push(this.#limit(text.slice(position, end)));
      if (end < text.length) {
        parts.push(text.charAt(end));
        this.#advanceState(text.charAt(end));
      }
      position = end + 1;
    }
    return parts.join("");
  }

  #findNextChange(text: string, from: number): number {
    if (this.#state === "escape") return from;
    const pattern = this.#state === "text" ? STRING_START : this.#state === "osc" ? OSC_END : DCS_END;
    pattern.lastIndex = from;
    return pattern.exec(text)?.index ?? text.length;
  }

  #limit(text: string): string {
    if (this.#state === "text") return text;
    const room = Math.max(0, MAX_STRING_CHARS - this.#passed);
    this.#passed += text.length;
    return text.slice(0, room);
  }

  #advanceState(character: string): void {
    // A control character inside an escape is executed, and the escape continues.
    if (this.#state === "escape" && C0_IN_ESCAPE.test(character)) return;
    const wasEscape = this.#state === "escape";
    this.#passed = 0;
    if (character === "\u001b") this.#state = "escape";
    else if (character === "\u009d" || (wasEscape && character === "]")) this.#state = "osc";
    else if (character === "\u0090" || (wasEscape && character === "P")) this.#state = "dcs";
    else this.#state = "text";
  }
}
