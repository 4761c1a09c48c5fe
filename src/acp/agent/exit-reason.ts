import { type AcpClosed, type AcpCloseReason, HoldfastError } from "../../errors.js";
import type { StoredError } from "../../model/acp.js";
import type { RunExit } from "../../model/run.js";
import { redactedExcerpt } from "../../text/truncate.js";

const REASONS_WITH_EXIT: readonly AcpCloseReason[] = ["ended", "protocol-error"];

/** Why an agent has ended, with its exit status and the last words of its stderr where these may say why. */
export function addExitReason(closed: AcpClosed, exit: RunExit | null, stderr: string): AcpClosed {
  if (!REASONS_WITH_EXIT.includes(closed.reason)) return closed;
  const line = lastStderrLine(stderr);
  return closed.and([...exitStatusText(exit), ...(line === "" ? [] : [`its last words: ${line}`])]);
}

/** Its own, not what it had when it was ended. */
function exitStatusText(exit: RunExit | null): string[] {
  if (exit?.reason === "exit" && exit.code !== null) return [`it exited with code ${exit.code}`];
  return exit?.reason === "signal" && exit.signal !== null ? [`it was ended by ${exit.signal}`] : [];
}

/** Below the sentence that says what is wrong, Node writes where, the error's fields, and its own version. */
const STACK_TRACE_LINE = /^(?:\s|[\])}]|Node\.js v|$)/;

function lastStderrLine(stderr: string): string {
  const lines = stderr.trimEnd().split("\n");
  return redactedExcerpt(lines.findLast((line) => !STACK_TRACE_LINE.test(line)) ?? lines.at(-1) ?? "");
}

/** What a caller would have been told, to be kept. */
export function toProblem(error: unknown): StoredError {
  const message = error instanceof Error ? error.message : String(error);
  return { code: error instanceof HoldfastError ? error.code : "INTERNAL", message };
}
