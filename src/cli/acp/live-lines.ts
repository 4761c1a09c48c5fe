import { printOrThrow } from "../print/stdout.js";

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
