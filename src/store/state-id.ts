import { randomUUID } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { persistentId } from "../home/persistent-id.js";
import { readOwnFile } from "../home/own-file.js";
import { recordLocation } from "../home/state-location.js";

const STATE_ID_FILE = "state-id";

/** Tells one state directory from all others that keep their runs in the same store. Made once. */
export async function stateIdOf(home: string): Promise<string> {
  const stateId = await persistentId(
    home,
    STATE_ID_FILE,
    () => `st_${randomUUID().replaceAll("-", "").slice(0, 16)}`,
  );
  await recordLocation(home);
  return stateId;
}

/** For those who only look: makes nothing. Null: there is none yet. */
export async function readStateId(home: string): Promise<string | null> {
  const kept = await readOwnFile(join(home, STATE_ID_FILE)).catch(() => "");
  return kept.trim() || null;
}

/** Tells a state directory from its copies on the same host; the same however it is reached, and as long as it is there. */
export async function directoryIdOf(home: string): Promise<string> {
  const { dev, ino } = await stat(home, { bigint: true });
  return `${dev}:${ino}`;
}
