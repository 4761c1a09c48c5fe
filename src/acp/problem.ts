import { HoldfastError } from "../errors.js";
import type { KeptProblem } from "../store/acp-record.js";

/** What a caller would have been told, to be kept. */
export function problemOf(error: unknown): KeptProblem {
  const message = error instanceof Error ? error.message : String(error);
  return { code: error instanceof HoldfastError ? error.code : "INTERNAL", message };
}
