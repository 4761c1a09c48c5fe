import { writeSync } from "node:fs";
import { BadInput, HoldfastError, NothingToAbandon, NotOurs, RunNotFound, SpawnFailed } from "../errors.js";
import { sanitizeLine } from "../output/sanitize.js";
import { exitCodes, spawnErrorCode } from "./exit-code.js";
import { paletteFor } from "./palette.js";

/** One line on stderr, never a stack trace. Returns the exit code that goes with it. */
export function complain(error: unknown): number {
  say(error instanceof Error ? error.message : String(error), "red");
  // The stack of a bug is for the report, and only when asked for.
  if (!(error instanceof HoldfastError) && process.env["HOLDFAST_DEBUG"] === "1" && error instanceof Error)
    say(error.stack ?? "", "red");
  if (error instanceof BadInput) return exitCodes.usage;
  if (error instanceof RunNotFound || error instanceof NotOurs) return exitCodes.notThere;
  if (error instanceof NothingToAbandon) return exitCodes.incomplete;
  return error instanceof SpawnFailed ? spawnErrorCode(error.errno, error.step) : exitCodes.failure;
}

export function say(message: string, colour: "red" | "yellow" | "dim"): void {
  try {
    writeSync(2, `${line(message, colour)}\n`);
  } catch {
    // Nobody is listening any more; there is nobody to tell.
  }
}

/** `holdfast: …`, safe to show whatever the message quotes. */
export function line(message: string, colour: "red" | "yellow" | "dim"): string {
  return paletteFor(2)[colour](`holdfast: ${sanitizeLine(message.trimEnd())}`);
}
