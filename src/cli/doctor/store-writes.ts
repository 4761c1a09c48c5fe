import { access, constants, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { reach } from "../../gateway/start.js";
import { databaseAddress } from "../../store/database-address.js";
import type { StateDirectory } from "../../store/state-directory.js";
import { formatDuration } from "../duration.js";
import { bad, ok, type Check } from "./check.js";

/** Free space below which the disk counts as full: each write needs a few pages in the store's log. */
const LEAST_BYTES = 1024 * 1024;

const name = "store writes";

/** Checks writes to the store: the gateway reports them. Without a gateway, the check reads permissions and writes nothing. */
export async function checkStoreWrites({ home, storePath }: StateDirectory): Promise<readonly Check[]> {
  const writes = (await reach(home).catch(() => null))?.status.storeWrites;
  if (writes !== undefined) {
    const { writable, refusal, since, backlog, renewalMs } = writes;
    const renewed = `the leases were renewed ${formatDuration(renewalMs)} ago`;
    if (writable) return [ok(name, `the gateway can write to the store; ${renewed}`)];
    const forMs = formatDuration(Math.max(0, Date.now() - (since ?? Date.now())));
    return [
      bad(
        name,
        `the store can be read but not written, for ${forMs}; ${backlog} writes are waiting, ${renewed}: ${refusal ?? ""}`,
        "runs continue and can be stopped; make the store writable again, then the waiting writes are repeated automatically",
      ),
    ];
  }
  if ((await databaseAddress().catch(() => "")) !== null) return [];
  return [await file(storePath)];
}

async function file(storePath: string): Promise<Check> {
  try {
    await access(storePath, constants.W_OK);
    await access(dirname(storePath), constants.W_OK);
    const { bavail, bsize } = await statfs(storePath);
    if (bavail * bsize < LEAST_BYTES)
      return bad(name, `the disk of ${storePath} is full: nothing can be recorded`, "free some space");
    return ok(name, "the store file can be written");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return ok(name, "there is no store yet");
    const why = error instanceof Error ? error.message : String(error);
    return bad(
      name,
      `${storePath} cannot be written (${why}): nothing can be recorded`,
      "make the file writable",
    );
  }
}
