import { randomUUID } from "node:crypto";
import { link, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { StateUnusable, UnsafePath } from "../errors.js";
import { isInstanceId, newInstanceId } from "../model/ids.js";
import { errnoCode, errorMessage } from "./errno.js";
import { readOwnFile } from "./own-file.js";

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

/** The instance id of the gateway of a state directory, the same over restarts. */
export async function loadOrCreateGatewayId(home: string): Promise<string> {
  const id = await persistentId(home, "gateway-id", newInstanceId);
  if (isInstanceId(id)) return id;
  throw new StateUnusable(
    home,
    `${home}/gateway-id does not hold an instance id; nothing was started. If it was damaged, remove it: runs of the former gateway are then taken over when their leases have expired.`,
  );
}
