import { writeSync } from "node:fs";
import { HoldfastError, SpawnFailed } from "../../errors.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { exitCodes, spawnErrorCode } from "./exit-code.js";
import { WriteFailed } from "./fd-writer.js";
import { paletteFor } from "./palette.js";

/** What went wrong first. When closing up after it failed, too, the language wraps both in an error without words. */
export function firstError(error: unknown): unknown {
  return error instanceof Error && error.name === "SuppressedError" && "suppressed" in error
    ? firstError(error.suppressed)
    : error;
}

/** By code, not by class: the same whether it happened here or a gateway answered with it. */
const EXIT_CODE_BY_ERROR: Readonly<Record<string, number>> = {
  BAD_INPUT: exitCodes.usage,
  RUN_NOT_FOUND: exitCodes.notThere,
  NOT_FOUND: exitCodes.notThere,
  NOT_OURS: exitCodes.notThere,
  OPERATOR_ONLY: exitCodes.refused,
  SESSION_TAKEN: exitCodes.refused,
  SESSION_CLOSED: exitCodes.refused,
  SESSION_BUSY: exitCodes.refused,
  TASK_REFUSED: exitCodes.refused,
  INBOX_FULL: exitCodes.refused,
  EXEC_DENIED: exitCodes.refused,
  COPY_REFUSED: exitCodes.refused,
  STATE_COPIED: exitCodes.refused,
  ACP_CLOSED: exitCodes.interrupted,
  ACP_TIMEOUT: exitCodes.timeout,
  ACP_REFUSED: exitCodes.refused,
  ACP_NOT_HELD: exitCodes.refused,
  ACP_SESSION_CLOSED: exitCodes.refused,
  ACP_QUEUE_FULL: exitCodes.refused,
  ACP_NOT_RESTARTABLE: exitCodes.refused,
  NOTHING_TO_ABANDON: exitCodes.incomplete,
  NOT_FORGOTTEN: exitCodes.incomplete,
  STORE_UNREADABLE: exitCodes.unreadable,
};

/** One line on stderr, never a stack trace. Returns the exit code that goes with it. */
export function reportError(caught: unknown): number {
  const error = firstError(caught);
  // `holdfast logs -f x | head -1`: the reader has all it wanted. That is no failure to talk about.
  if (error instanceof WriteFailed && error.readerGone) return exitCodes.readerGone;
  notice(error instanceof Error ? error.message : String(error), "red");
  // The stack of a bug is for the report, and only when asked for.
  if (!(error instanceof HoldfastError) && process.env["HOLDFAST_DEBUG"] === "1" && error instanceof Error)
    notice(error.stack ?? "", "red");
  if (error instanceof SpawnFailed) return spawnErrorCode(error.errno, error.step);
  return (error instanceof HoldfastError ? EXIT_CODE_BY_ERROR[error.code] : undefined) ?? exitCodes.failure;
}

export function notice(message: string, colour: "red" | "yellow" | "dim"): void {
  try {
    writeSync(2, `${formatNotice(message, colour)}\n`);
  } catch {
    // Nobody is listening any more; there is nobody to tell.
  }
}

/** `holdfast: …`, safe to show whatever the message quotes. */
export function formatNotice(message: string, colour: "red" | "yellow" | "dim"): string {
  return paletteFor(2)[colour](`holdfast: ${sanitizeLine(message.trimEnd())}`);
}
