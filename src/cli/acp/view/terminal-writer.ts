import { sanitizeText } from "../../../text/sanitize.js";
import { printOrThrow } from "../../print/stdout.js";

/** What is written on stdout, and where that stands. */
export class StdoutWriter {
  #atLineStart = true;

  get atLineStart(): boolean {
    return this.#atLineStart;
  }

  /** Goes on where the last left off. */
  write(text: string): void {
    if (text === "") return;
    printOrThrow(text);
    this.#atLineStart = text.endsWith("\n");
  }

  writeLine(text: string): void {
    this.startLine();
    printOrThrow(`${text}\n`);
  }

  /** At the beginning of a line. */
  startLine(): void {
    if (!this.#atLineStart) printOrThrow("\n");
    this.#atLineStart = true;
  }
}

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

/** How large the terminal is. */
export interface TerminalDimensions {
  readonly columns: number;
  readonly rows: number;
}

/**
 * The last lines of a terminal, as long as nothing else stands below them: each can be written again in its place.
 * Every line must fit into the terminal's width, or it would be two.
 */
export class LiveLines {
  readonly #size: () => TerminalDimensions;
  #ids: string[] = [];
  #drawnAt: number | null = null;

  constructor(size: () => TerminalDimensions) {
    this.#size = size;
  }

  /** The pen must be at the beginning of a line. */
  set(id: string, text: string): void {
    const { columns, rows } = this.#size();
    // What a terminal makes of its lines when it is resized is not known here.
    if (this.#drawnAt !== columns) this.freeze();
    this.#drawnAt = columns;
    const at = this.#ids.indexOf(id);
    if (at >= 0) {
      const up = this.#ids.length - at;
      printOrThrow(`\x1b[${up}A\r\x1b[2K${text}\x1b[${up}B\r`);
      return;
    }
    printOrThrow(`${text}\n`);
    // What has left the screen cannot be reached any more.
    this.#ids = [...this.#ids, id].slice(-Math.max(1, rows - 1));
  }

  has(id: string): boolean {
    return this.#ids.includes(id) && this.#drawnAt === this.#size().columns;
  }

  /** From here on they stay as they are. */
  freeze(): void {
    this.#ids = [];
  }
}
