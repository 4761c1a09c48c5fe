import { readdir, readlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** The name of a removed directory in /proc. */
const REMOVED = " (deleted)";

/**
 * Returns the ids of the runs whose directories the process has open, also of removed ones: an anchor has those of the
 * runs that it serves. Empty if its descriptors cannot be read, or on a system without /proc.
 */
export async function listOpenRunDirectories(pid: number): Promise<readonly string[]> {
  const descriptors = `/proc/${pid}/fd`;
  const open: string[] = [];
  for (const name of await readdir(descriptors).catch(() => [])) {
    const target = await readlink(join(descriptors, name)).catch(() => "");
    const path = target.endsWith(REMOVED) ? target.slice(0, -REMOVED.length) : target;
    // The directory of a warm anchor has a dot before the id.
    if (basename(dirname(path)) === "runs") open.push(basename(path).replace(/^\./, ""));
  }
  return open;
}
