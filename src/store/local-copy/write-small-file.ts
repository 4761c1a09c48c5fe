import { closeSync, fsync, mkdirSync, openSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { errnoCode } from "../../home/errno.js";

const syncToDisk = promisify(fsync);

/**
 * Writes a small file, and creates its directory if it is missing. Only the sync leaves the event loop: another thread
 * would cost more than the write. A file that could not be written is removed.
 */
export async function writeSmallFile(
  path: string,
  flags: number,
  text: string,
  durable: boolean,
): Promise<void> {
  const file = openWithDirectory(path, flags);
  try {
    writeFileSync(file, text);
    if (durable) await syncToDisk(file);
  } catch (error) {
    rmSync(path, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

function openWithDirectory(path: string, flags: number): number {
  try {
    return openSync(path, flags, 0o600);
  } catch (error) {
    if (errnoCode(error) !== "ENOENT") throw error;
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    return openSync(path, flags, 0o600);
  }
}
