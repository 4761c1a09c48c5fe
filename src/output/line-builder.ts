import { incompleteTailBytes } from "../text/utf8.js";

export interface BuiltLine {
  readonly bytes: Uint8Array;
  /** Bytes beyond the limit that are not in `bytes`. */
  readonly cut: number;
}

interface PartialLine {
  readonly parts: Uint8Array[];
  held: number;
  seen: number;
}

const CARRIAGE_RETURN = 0x0d;

/**
 * Builds one line of any length from parts: keeps its start up to a limit and counts the rest. If `collapse` is set, a
 * carriage return restarts the line, so that only the last state of a progress bar remains.
 */
export class LineBuilder {
  readonly #maxBytes: number;
  readonly #collapse: boolean;
  #current: PartialLine = emptyLine();
  /** The last state that was not empty, because a progress bar may end in a carriage return. */
  #previous: PartialLine = emptyLine();

  constructor(maxBytes: number, collapse: boolean) {
    this.#maxBytes = maxBytes;
    this.#collapse = collapse;
  }

  /** `part` has no line feed. It is copied, because a view would keep the whole chunk alive. */
  push(part: Uint8Array): void {
    let start = 0;
    for (
      let end = this.#collapse ? part.indexOf(CARRIAGE_RETURN) : -1;
      end >= 0;
      end = part.indexOf(CARRIAGE_RETURN, start)
    ) {
      this.#append(part.subarray(start, end));
      if (this.#current.seen > 0) this.#previous = this.#current;
      this.#current = emptyLine();
      start = end + 1;
    }
    this.#append(part.subarray(start));
  }

  /**
   * Returns the line pushed since the last call, without its last `without` bytes. A carriage return at the end belongs
   * to the line end.
   */
  take(without = 0): BuiltLine {
    const current = { ...this.#current, seen: this.#current.seen - without };
    const { parts, seen } = current.seen > 0 ? current : this.#previous;
    this.#current = emptyLine();
    this.#previous = emptyLine();
    const whole = Buffer.concat(parts).subarray(0, seen);
    if (seen > whole.length) {
      const bytes = whole.subarray(0, whole.length - incompleteTailBytes(whole));
      return { bytes, cut: seen - bytes.length };
    }
    return { bytes: whole.at(-1) === CARRIAGE_RETURN ? whole.subarray(0, -1) : whole, cut: 0 };
  }

  #append(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    const room = Math.min(bytes.length, this.#maxBytes - this.#current.held);
    if (room > 0) this.#current.parts.push(Uint8Array.from(bytes.subarray(0, room)));
    this.#current.held += Math.max(0, room);
    this.#current.seen += bytes.length;
  }
}

function emptyLine(): PartialLine {
  return { parts: [], held: 0, seen: 0 };
}
