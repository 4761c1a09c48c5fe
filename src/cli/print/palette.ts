import { isatty } from "node:tty";
import picocolors from "picocolors";

export type Palette = ReturnType<typeof picocolors.createColors>;

/** Colours for one descriptor: only on a terminal, and not when its user has asked for none (no-color.org). */
export function paletteFor(fd: 1 | 2): Palette {
  const wanted = (process.env["NO_COLOR"] ?? "") === "";
  return picocolors.createColors(wanted && isCapableTerminal(fd));
}

/** Whether a line can be written again: a terminal, and not one that only prints. */
export function isCapableTerminal(fd: 1 | 2): boolean {
  return isatty(fd) && process.env["TERM"] !== "dumb";
}
