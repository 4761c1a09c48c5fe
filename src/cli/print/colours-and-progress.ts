import { writeSync } from "node:fs";
import { isatty } from "node:tty";
import { sanitizeLine } from "../../text/sanitize.js";
import { truncateToWidth } from "../../text/display-width.js";

type Paint = (text: string) => string;

/** Functions that put text between the sequences of a terminal (ECMA-48, SGR). */
export type Palette = Readonly<Record<keyof typeof SGR, Paint>>;

/** The codes that switch each attribute on and off. */
const SGR = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
} as const;

export function createPalette(coloured: boolean): Palette {
  const names = Object.keys(SGR) as (keyof typeof SGR)[];
  return Object.fromEntries(
    names.map((name) => [name, coloured ? paint(SGR[name]) : (text: string) => text]),
  ) as Palette;
}

/** If the text contains the code that switches the attribute off, the attribute is switched on again after it. */
function paint([on, off]: readonly [number, number]): Paint {
  const [begin, end] = [`\u001b[${on}m`, `\u001b[${off}m`];
  return (text) => begin + text.replaceAll(end, end + begin) + end;
}

/** Colours for a descriptor: only on a terminal, and not with NO_COLOR (no-color.org). */
export function paletteFor(fd: 1 | 2): Palette {
  const wanted = (process.env["NO_COLOR"] ?? "") === "";
  return createPalette(wanted && isCapableTerminal(fd));
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
