/** Of a control string, passed on: titles and questions are far shorter, and pictures are not drawn. */
const MOST_CHARS = 4096;

type State = "text" | "escape" | "osc" | "dcs";

/** What begins a control string or an escape, what ends the former, and what leaves the latter as it is. */
const BEGINS = /[\u001b\u0090\u009d]/g;
const ENDS_OSC = /[\u0007\u0018\u001a\u001b\u0080-\u009f]/g;
const ENDS_DCS = /[\u0018\u001a\u001b\u0080-\u009f]/g;
const EXECUTED = /[\0-\u0017\u0019\u001c-\u001f\u007f]/;

/**
 * Shortens the control strings (OSC and DCS) in a terminal's output, cut anywhere. xterm.js collects up to ten
 * million characters of one, twice, at some thirty bytes each.
 */
export class StringBound {
  #state: State = "text";
  #passed = 0;

  push(text: string): string {
    const parts: string[] = [];
    let position = 0;
    while (position < text.length) {
      const end = this.#nextChange(text, position);
      parts.push(this.#allowed(text.slice(position, end)));
      if (end < text.length) {
        parts.push(text.charAt(end));
        this.#change(text.charAt(end));
      }
      position = end + 1;
    }
    return parts.join("");
  }

  #nextChange(text: string, from: number): number {
    if (this.#state === "escape") return from;
    const sought = this.#state === "text" ? BEGINS : this.#state === "osc" ? ENDS_OSC : ENDS_DCS;
    sought.lastIndex = from;
    return sought.exec(text)?.index ?? text.length;
  }

  #allowed(text: string): string {
    if (this.#state === "text") return text;
    const room = Math.max(0, MOST_CHARS - this.#passed);
    this.#passed += text.length;
    return text.slice(0, room);
  }

  #change(character: string): void {
    // A control between the two characters of an escape is obeyed, and the escape goes on.
    if (this.#state === "escape" && EXECUTED.test(character)) return;
    const wasEscape = this.#state === "escape";
    this.#passed = 0;
    if (character === "\u001b") this.#state = "escape";
    else if (character === "\u009d" || (wasEscape && character === "]")) this.#state = "osc";
    else if (character === "\u0090" || (wasEscape && character === "P")) this.#state = "dcs";
    else this.#state = "text";
  }
}
