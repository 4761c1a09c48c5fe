import { randomUUID } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { readOwnFile } from "./own-file.js";
import { persistentId } from "./persistent-ids.js";
import { recordLocation } from "./state-location.js";

const STATE_ID_FILE = "state-id";

/** Identifies a state directory among those that use the same store. Created once. */
export async function stateIdOf(home: string): Promise<string> {
  const stateId = await persistentId(
    home,
    STATE_ID_FILE,
    () => `st_${randomUUID().replaceAll("-", "").slice(0, 16)}`,
  );
  await recordLocation(home);
  return stateId;
}

/** The same for readers: creates nothing. Null: there is none yet. */
export async function readStateId(home: string): Promise<string | null> {
  const kept = await readOwnFile(join(home, STATE_ID_FILE)).catch(() => "");
  return kept.trim() || null;
}

/** Distinguishes a state directory from its copies on the same host, whatever the path to it. */
export async function directoryIdOf(home: string): Promise<string> {
  const { dev, ino } = await stat(home, { bigint: true });
  return `${dev}:${ino}`;
}
