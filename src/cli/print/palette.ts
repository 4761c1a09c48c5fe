import { isatty } from "node:tty";
import picocolors from "picocolors";

export type Palette = ReturnType<typeof picocolors.createColors>;

/** Colours for a descriptor: only on a terminal, and not with NO_COLOR (no-color.org). */
export function paletteFor(fd: 1 | 2): Palette {
  const wanted = (process.env["NO_COLOR"] ?? "") === "";
  return picocolors.createColors(wanted && isCapableTerminal(fd));
}

/** Whether lines can be rewritten: a terminal that can move its cursor. */
export function isCapableTerminal(fd: 1 | 2): boolean {
  return isatty(fd) && process.env["TERM"] !== "dumb";
}
