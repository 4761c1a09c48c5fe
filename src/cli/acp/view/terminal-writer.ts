import { isatty } from "node:tty";
import { sanitizeText } from "../../../text/sanitize.js";
import { printOrThrow } from "../../print/write-output.js";

/** Writes to stdout and keeps track of the cursor. */
export class StdoutWriter {
  #atLineStart = true;

  get atLineStart(): boolean {
    return this.#atLineStart;
  }

  /** Continues where the last write ended. */
  write(text: string): void {
    if (text === "") return;
    printOrThrow(text);
    this.#atLineStart = text.endsWith("\n");
  }

  writeLine(text: string): void {
    this.startLine();
    printOrThrow(`${text}\n`);
  }

  /** Moves to the beginning of a line. */
  startLine(): void {
    if (!this.#atLineStart) printOrThrow("\n");
    this.#atLineStart = true;
  }
}

/** The first half of a line end or of a character. */
const PARTIAL_CHARACTER = /[\r\ud800-\udbff]$/;
/** An escape sequence and the text after it. */
const OPEN_SEQUENCE = /\x1b[^\x07\x1b\n]{0,255}$/;
const COMPLETE_SEQUENCE = /^\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-Z\\^-~])/;

/** Sanitizes an agent's text in pieces: an escape sequence that is split between two pieces is removed as a whole. */
export class SanitizedTextStream {
  #incomplete = "";

  push(piece: string): string {
    const text = this.#incomplete + piece;
    this.#incomplete = incompleteTail(text);
    return sanitizeText(text.slice(0, text.length - this.#incomplete.length));
  }

  /** The rest that was never completed. */
  flush(): string {
    const rest = sanitizeText(this.#incomplete);
    this.#incomplete = "";
    return rest;
  }
}

/** The end of a piece that may be the beginning of a sequence. */
function incompleteTail(text: string): string {
  const [half] = PARTIAL_CHARACTER.exec(text) ?? [];
  if (half !== undefined) return half;
  const [sequence = ""] = OPEN_SEQUENCE.exec(text) ?? [];
  return COMPLETE_SEQUENCE.test(sequence) ? "" : sequence;
}

/** The size of the terminal. */
interface TerminalDimensions {
  readonly columns: number;
  readonly rows: number;
}

/**
 * The last lines of a terminal, while nothing is written below them: each can be rewritten in place. Every line must
 * fit the width of the terminal, or it would take two rows.
 */
export class LiveLines {
  readonly #size: () => TerminalDimensions;
  #ids: string[] = [];
  #drawnAt: number | null = null;

  constructor(size: () => TerminalDimensions) {
    this.#size = size;
  }

  /** The cursor must be at the beginning of a line. */
  set(id: string, text: string): void {
    const { columns, rows } = this.#size();
    // The layout of lines after a resize is not known.
    if (this.#drawnAt !== columns) this.freeze();
    this.#drawnAt = columns;
    const at = this.#ids.indexOf(id);
    if (at >= 0) {
      const up = this.#ids.length - at;
      printOrThrow(`\x1b[${up}A\r\x1b[2K${text}\x1b[${up}B\r`);
      return;
    }
    printOrThrow(`${text}\n`);
    // A line that has scrolled off the screen cannot be rewritten.
    this.#ids = [...this.#ids, id].slice(-Math.max(1, rows - 1));
  }

  has(id: string): boolean {
    return this.#ids.includes(id) && this.#drawnAt === this.#size().columns;
  }

  /** From now on the lines are not rewritten. */
  freeze(): void {
    this.#ids = [];
  }
}

/** Width of lines if stdout is no terminal. */
const NON_TERMINAL_WIDTH = 200;

export function terminalDimensions(): TerminalDimensions {
  const { columns, rows } = process.stdout;
  // Some terminals do not know their size and report 0.
  return { columns: columns > 0 ? columns : 80, rows: rows > 0 ? rows : 24 };
}

/** One column less: a terminal may wrap when its last column is filled. */
export function lineWidth(): number {
  return isatty(1) ? terminalDimensions().columns - 1 : NON_TERMINAL_WIDTH;
}
