import { type AcpClosed, type AcpCloseReason, HoldfastError } from "../../errors.js";
import { errorMessage } from "../../home/errno.js";
import type { StoredError } from "../../model/acp.js";
import type { RunExit } from "../../model/run.js";
import { redactedExcerpt } from "../../text/redact.js";

const REASONS_WITH_EXIT: readonly AcpCloseReason[] = ["ended", "protocol-error"];

/** Adds the exit status and the last line of stderr, if these may explain why the agent ended. */
export function addExitReason(closed: AcpClosed, exit: RunExit | null, stderr: string): AcpClosed {
  if (!REASONS_WITH_EXIT.includes(closed.reason)) return closed;
  const line = lastStderrLine(stderr);
  return closed.and([...exitStatusText(exit), ...(line === "" ? [] : [`its last line on stderr: ${line}`])]);
}

/** Empty if the agent was stopped. */
function exitStatusText(exit: RunExit | null): string[] {
  if (exit?.reason === "exit" && exit.code !== null) return [`it exited with code ${exit.code}`];
  return exit?.reason === "signal" && exit.signal !== null ? [`it was ended by ${exit.signal}`] : [];
}

/** Lines that Node prints after an error's message: the stack, the fields of the error, its version. */
const STACK_TRACE_LINE = /^(?:\s|[\])}]|Node\.js v|$)/;

function lastStderrLine(stderr: string): string {
  const lines = stderr.trimEnd().split("\n");
  return redactedExcerpt(lines.findLast((line) => !STACK_TRACE_LINE.test(line)) ?? lines.at(-1) ?? "");
}

/** An error as it is stored. */
export function toProblem(error: unknown): StoredError {
  const message = errorMessage(error);
  return { code: error instanceof HoldfastError ? error.code : "INTERNAL", message };
}
