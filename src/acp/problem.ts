import { HoldfastError } from "../errors.js";
import type { StoredError } from "../model/acp.js";

/** What a caller would have been told, to be kept. */
export function toProblem(error: unknown): StoredError {
  const message = error instanceof Error ? error.message : String(error);
  return { code: error instanceof HoldfastError ? error.code : "INTERNAL", message };
}
