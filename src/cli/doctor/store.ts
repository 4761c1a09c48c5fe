import { access, constants, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { reachGateway } from "../../gateway/start.js";
import { databaseUrl } from "../../config/database-url.js";
import type { StateDirectory } from "../../home/state-directory.js";
import { formatDuration } from "../options/units.js";
import { bad, ok, type Check } from "./check.js";

/** Free space below which the disk counts as full: each write needs a few pages in the store's log. */
const MIN_WRITE_BYTES = 1024 * 1024;

const STORE_WRITES = "store writes";

/** Checks writes to the store: the gateway reports them. Without a gateway, the check reads permissions and writes nothing. */
export async function checkStoreWrites({ home, storePath }: StateDirectory): Promise<readonly Check[]> {
  const writes = (await reachGateway(home).catch(() => null))?.status.storeWrites;
  if (writes !== undefined) {
    const { writable, refusal, since, backlog, renewalMs } = writes;
    const renewed = `the leases were renewed ${formatDuration(renewalMs)} ago`;
    if (writable) return [ok(STORE_WRITES, `the gateway can write to the store; ${renewed}`)];
    const forMs = formatDuration(Math.max(0, Date.now() - (since ?? Date.now())));
    return [
      bad(
        STORE_WRITES,
        `the store can be read but not written, for ${forMs}; ${backlog} writes are waiting, ${renewed}: ${refusal ?? ""}`,
        "runs continue and can be stopped; make the store writable again, then the waiting writes are repeated automatically",
      ),
    ];
  }
  if ((await databaseUrl().catch(() => "")) !== null) return [];
  return [await checkStoreFile(storePath)];
}

async function checkStoreFile(storePath: string): Promise<Check> {
  try {
    await access(storePath, constants.W_OK);
    await access(dirname(storePath), constants.W_OK);
    const { bavail, bsize } = await statfs(storePath);
    if (bavail * bsize < MIN_WRITE_BYTES)
      return bad(
        STORE_WRITES,
        `the disk of ${storePath} is full: nothing can be recorded`,
        "free some space",
      );
    return ok(STORE_WRITES, "the store file can be written");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return ok(STORE_WRITES, "there is no store yet");
    const why = error instanceof Error ? error.message : String(error);
    return bad(
      STORE_WRITES,
      `${storePath} cannot be written (${why}): nothing can be recorded`,
      "make the file writable",
    );
  }
}
