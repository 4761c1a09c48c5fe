import { writeSync } from "node:fs";
import { HoldfastError, SpawnFailed } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import { sanitizeLine } from "../../text/sanitize.js";
import { exitCodes, spawnErrorCode } from "./exit-code.js";
import { consoleStream, WriteFailed } from "./write-output.js";
import { paletteFor } from "./colours-and-progress.js";

/** The first error. If disposing resources failed as well, JavaScript wraps both in a SuppressedError. */
export function firstError(error: unknown): unknown {
  return error instanceof Error && error.name === "SuppressedError" && "suppressed" in error
    ? firstError(error.suppressed)
    : error;
}

/** By code, not by class: an error may come from this process or from a gateway. */
const EXIT_CODE_BY_ERROR: Readonly<Record<string, number>> = {
  BAD_INPUT: exitCodes.usage,
  RUN_NOT_FOUND: exitCodes.notThere,
  NOT_FOUND: exitCodes.notThere,
  NOT_OURS: exitCodes.notThere,
  TOO_LARGE: exitCodes.usage,
  INSIDE_RUN: exitCodes.refused,
  OPERATOR_ONLY: exitCodes.refused,
  UNAUTHORIZED: exitCodes.refused,
  STDIN_CLOSED: exitCodes.refused,
  STDIN_FULL: exitCodes.refused,
  RUN_EXISTS: exitCodes.refused,
  NOT_ADOPTED: exitCodes.usage,
  TOO_MANY_REQUESTS: exitCodes.refused,
  TOO_MANY_STREAMS: exitCodes.refused,
  TOO_MANY_APPROVALS: exitCodes.refused,
  SESSION_STORAGE_FULL: exitCodes.refused,
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
  ACP_AUTH_REQUIRED: exitCodes.refused,
  ACP_NOT_HELD: exitCodes.refused,
  ACP_SESSION_CLOSED: exitCodes.refused,
  ACP_QUEUE_FULL: exitCodes.refused,
  ACP_NOT_RESTARTABLE: exitCodes.refused,
  NOTHING_TO_ABANDON: exitCodes.incomplete,
  NOT_FORGOTTEN: exitCodes.incomplete,
  STORE_UNREADABLE: exitCodes.unreadable,
};

/** Prints one line on stderr, never a stack trace. Returns the exit code. */
export function reportError(caught: unknown): number {
  const error = firstError(caught);
  // `holdfast logs -f x | head -1`: a reader that has read enough is no failure.
  if (error instanceof WriteFailed && error.readerGone) return exitCodes.readerGone;
  notice(errorMessage(error), "red");
  // The stack trace of a bug, for a report.
  if (!(error instanceof HoldfastError) && process.env["HOLDFAST_DEBUG"] === "1" && error instanceof Error)
    notice(error.stack ?? "", "red");
  if (error instanceof SpawnFailed) return spawnErrorCode(error.errno, error.step);
  return (error instanceof HoldfastError ? EXIT_CODE_BY_ERROR[error.code] : undefined) ?? exitCodes.failure;
}

export function notice(message: string, colour: "red" | "yellow" | "dim"): void {
  writeStderr(`${formatNotice(message, colour)}\n`);
}

/** Writes text that is safe for a terminal. */
export function writeStderr(text: string): void {
  const stream = consoleStream(2);
  if (stream !== null) return void stream.write(text);
  try {
    writeSync(2, text);
  } catch {
    // stderr is closed: there is no other place to report that.
  }
}

/** `holdfast: …` without characters that a terminal acts on. */
export function formatNotice(message: string, colour: "red" | "yellow" | "dim"): string {
  return paletteFor(2)[colour](`holdfast: ${sanitizeLine(message.trimEnd())}`);
}
