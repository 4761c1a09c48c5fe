import { writeSync } from "node:fs";
import { isatty } from "node:tty";
import picocolors from "picocolors";
import { sanitizeLine } from "../../text/sanitize.js";
import { truncateToWidth } from "../../text/truncate.js";

export type Palette = ReturnType<typeof picocolors.createColors>;

/** Colours for a descriptor: only on a terminal, and not with NO_COLOR (no-color.org). */
export function paletteFor(fd: 1 | 2): Palette {
  const wanted = (process.env["NO_COLOR"] ?? "") === "";
  return picocolors.createColors(wanted && isCapableTerminal(fd));
}

/** True if lines can be rewritten: a terminal that can move its cursor. */
export function isCapableTerminal(fd: 1 | 2): boolean {
  return isatty(fd) && process.env["TERM"] !== "dumb";
}

/** The width of a terminal that does not know its width. */
const DEFAULT_COLUMNS = 80;
const CLEAR = "\r\u001b[2K";

/** The last line of a terminal, rewritten with each update. Off: nothing is shown. */
export class ProgressLine implements Disposable {
  readonly #on: boolean;
  #shown = false;

  constructor(on: boolean) {
    this.#on = on;
  }

  /** A long name is cut so that the progress is visible. */
  show(name: string, news: string): void {
    if (!this.#on) return;
    this.#shown = true;
    // A line that fills the last column may wrap.
    const width = (process.stderr.columns || DEFAULT_COLUMNS) - 1;
    const line = truncateToWidth(
      `${truncateToWidth(sanitizeLine(name), Math.floor(width / 3))}: ${sanitizeLine(news)}`,
      width,
    );
    writeStderr(`${CLEAR}${paletteFor(2).dim(line)}`);
  }

  clear(): void {
    if (this.#shown) writeStderr(CLEAR);
    this.#shown = false;
  }

  [Symbol.dispose](): void {
    this.clear();
  }
}

function writeStderr(text: string): void {
  try {
    writeSync(2, text);
  } catch {
    // stderr is closed.
  }
}
