import { writeSync } from "node:fs";
import { isatty } from "node:tty";

/** What a connection asks for that wants to be rung: one with a terminal. */
export function bellQuery(): Readonly<Record<string, string>> {
  return isatty(2) ? { bell: "1" } : {};
}

export function ringBell(): void {
  try {
    writeSync(2, "\u0007");
  } catch {
    // Nobody is there to hear it.
  }
}
