import { HoldfastError } from "../errors.js";

const STORE_FAILURES: ReadonlySet<string> = new Set(["STORE_AWAY", "STATE_UNUSABLE", "STORE_UNREADABLE"]);

/** Whether an error says that the store could not be read, here or at a gateway. A copy of a state directory is no such case. */
export function isStoreFailure(error: unknown): boolean {
  return error instanceof HoldfastError && STORE_FAILURES.has(error.code);
}
