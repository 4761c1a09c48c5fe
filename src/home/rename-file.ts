import { renameSync } from "node:fs";
import { rename } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { errnoCode } from "./errno.js";

/** A virus scanner or an indexer has a new file open for this long at most; then the rename succeeds. */
const HELD_OPEN_MS = 2_000;
const RETRY_MS = 10;

/**
 * Renames a file to `to` and replaces what is there, at once for every reader. On Windows a rename fails while another
 * process has one of the files open without permission to delete it; such a rename is repeated.
 */
export async function renameFile(from: string, to: string): Promise<void> {
  const until = performance.now() + HELD_OPEN_MS;
  for (;;)
    try {
      return await rename(from, to);
    } catch (error) {
      if (!isHeldOpen(error) || performance.now() > until) throw error;
      await delay(RETRY_MS);
    }
}

/** The same for a caller that cannot wait for a promise. */
export function renameFileSync(from: string, to: string): void {
  const until = performance.now() + HELD_OPEN_MS;
  for (;;)
    try {
      return renameSync(from, to);
    } catch (error) {
      if (!isHeldOpen(error) || performance.now() > until) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
}

/** ERROR_ACCESS_DENIED and ERROR_SHARING_VIOLATION. Elsewhere these codes are lasting conditions. */
function isHeldOpen(error: unknown): boolean {
  return process.platform === "win32" && ["EPERM", "EACCES", "EBUSY"].includes(errnoCode(error) ?? "");
}
