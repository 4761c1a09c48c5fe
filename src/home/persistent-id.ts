import { randomUUID } from "node:crypto";
import { link, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StateUnusable, UnsafePath } from "../errors.js";
import { errnoCode, errorMessage } from "./errno.js";
import { readOwnFile } from "./own-file.js";
import { recordLocation } from "./state-location.js";
import { isInstanceId, newInstanceId } from "../model/ids.js";

/** An id of the state directory. The first process creates it; it never changes. */
export async function persistentId(home: string, name: string, make: () => string): Promise<string> {
  const path = join(home, name);
  const draft = join(home, `${name}.${randomUUID()}`);
  try {
    const kept = await readId(path).catch(() => "");
    if (kept !== "") return kept;
    await writeFile(draft, `${make()}\n`, { mode: 0o600, flag: "wx" });
    // A link, not a rename, so that the first of several processes wins and the file is never half written.
    await link(draft, path).catch((error: unknown) => {
      if (errnoCode(error) !== "EEXIST") throw error;
    });
    return await readId(path);
  } catch (cause) {
    if (cause instanceof UnsafePath) throw cause;
    const why = errorMessage(cause);
    throw new StateUnusable(path, `${path} cannot be made (${why}); nothing was started`, { cause });
  } finally {
    await rm(draft, { force: true });
  }
}

async function readId(path: string): Promise<string> {
  return (await readOwnFile(path)).trim();
}

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

/** The instance id of the gateway of a state directory, the same over restarts. */
export async function loadOrCreateGatewayId(home: string): Promise<string> {
  const id = await persistentId(home, "gateway-id", newInstanceId);
  if (isInstanceId(id)) return id;
  throw new StateUnusable(
    home,
    `${home}/gateway-id does not hold an instance id; nothing was started. If it was damaged, remove it: runs of the former gateway are then taken over when their leases have expired.`,
  );
}
