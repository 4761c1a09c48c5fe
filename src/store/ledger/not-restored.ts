import { rename } from "node:fs/promises";
import { join } from "node:path";
import { defaults } from "../../defaults.js";
import { readOwnFile, writeOwnFile } from "../own-file.js";

/** A record that a store has lost and that could not be put back. */
export interface NotRestored {
  /** Empty: the record is not about a task. */
  readonly taskId: string;
  /** One sentence for a person. */
  readonly detail: string;
  readonly at: number;
}

/** How many are kept: more would not help the reader. */
const KEPT = 1_000;

/** The records of the last day. A damaged file counts as missing. */
export async function readNotRestored(directory: string, now = Date.now()): Promise<readonly NotRestored[]> {
  try {
    const kept = JSON.parse(await readOwnFile(pathIn(directory))) as readonly NotRestored[];
    return kept.filter(({ at }) => at >= now - defaults.ledgerEndsKeptMs);
  } catch {
    return [];
  }
}

export async function noteNotRestored(directory: string, found: readonly NotRestored[]): Promise<void> {
  if (found.length === 0) return;
  const same = (one: NotRestored, other: NotRestored): boolean =>
    one.taskId === other.taskId && one.detail === other.detail;
  const before = (await readNotRestored(directory)).filter((each) => !found.some((one) => same(one, each)));
  const draft = `${pathIn(directory)}.${process.pid}`;
  writeOwnFile(draft, JSON.stringify([...before, ...found].slice(-KEPT)));
  await rename(draft, pathIn(directory));
}

function pathIn(directory: string): string {
  return join(directory, "not-restored.list");
}
