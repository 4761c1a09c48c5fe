import { rename } from "node:fs/promises";
import { join } from "node:path";
import { defaults } from "../../defaults.js";
import { readOwnFile, writeOwnFile } from "../../home/own-file.js";

/** A record that a store has lost and that could not be put back. */
export interface UnrestoredRecord {
  /** Empty: the record is not about a task. */
  readonly taskId: string;
  /** One sentence for a person. */
  readonly detail: string;
  readonly at: number;
}

/** How many are kept: more would not help the reader. */
const MAX_KEPT = 1_000;

/** The records of the last day. A damaged file counts as missing. */
export async function readUnrestored(
  directory: string,
  now = Date.now(),
): Promise<readonly UnrestoredRecord[]> {
  try {
    const kept = JSON.parse(await readOwnFile(listPath(directory))) as readonly UnrestoredRecord[];
    return kept.filter(({ at }) => at >= now - defaults.ledgerEndsKeptMs);
  } catch {
    return [];
  }
}

export async function recordUnrestored(directory: string, found: readonly UnrestoredRecord[]): Promise<void> {
  if (found.length === 0) return;
  const same = (one: UnrestoredRecord, other: UnrestoredRecord): boolean =>
    one.taskId === other.taskId && one.detail === other.detail;
  const before = (await readUnrestored(directory)).filter((each) => !found.some((one) => same(one, each)));
  const draft = `${listPath(directory)}.${process.pid}`;
  writeOwnFile(draft, JSON.stringify([...before, ...found].slice(-MAX_KEPT)));
  await rename(draft, listPath(directory));
}

function listPath(directory: string): string {
  return join(directory, "not-restored.list");
}
