import { isatty } from "node:tty";
import picocolors from "picocolors";

export type Palette = ReturnType<typeof picocolors.createColors>;

/** Colours for one descriptor: only on a terminal, and not when its user has asked for none (no-color.org). */
export function paletteFor(fd: 1 | 2): Palette {
  const wanted = (process.env["NO_COLOR"] ?? "") === "" && process.env["TERM"] !== "dumb";
  return picocolors.createColors(wanted && isatty(fd));
}
