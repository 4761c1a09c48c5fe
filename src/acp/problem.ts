import { type AcpClosed, type AcpCloseReason, HoldfastError } from "../errors.js";
import type { KeptProblem } from "../store/acp-record.js";
import { excerpt } from "./wire/excerpt.js";

/** What a caller would have been told, to be kept. */
export function problemOf(error: unknown): KeptProblem {
  const message = error instanceof Error ? error.message : String(error);
  return { code: error instanceof HoldfastError ? error.code : "INTERNAL", message };
}

/** The same of an agent that has ended, with the last line of its stderr where that may say why. */
export function wayOut(closed: AcpClosed, stderr: string): KeptProblem {
  const last = excerpt(stderr.trimEnd().split("\n").at(-1) ?? "");
  const spoke: readonly AcpCloseReason[] = ["ended", "protocol-error"];
  const words = last !== "" && spoke.includes(closed.reason) ? `; its last words: ${last}` : "";
  return { code: closed.code, message: `${closed.message}${words}` };
}
