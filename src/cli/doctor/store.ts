import { access, constants, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { databaseUrl } from "../../config/database-url.js";
import { reachGateway } from "../../gateway/locate.js";
import { errorMessage } from "../../home/errno.js";
import type { StateDirectory } from "../../home/state-directory.js";
import { localCopyDirectory } from "../../store/local-copy/run-copy.js";
import { readUnrestored, type UnrestoredRecord } from "../../store/local-copy/task-copy.js";
import { openStoreForReading } from "../../store/open.js";
import { formatDuration } from "../options/units.js";
import { bad, type Check, ok, warn } from "./check.js";

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
    const why = errorMessage(error);
    return bad(
      STORE_WRITES,
      `${storePath} cannot be written (${why}): nothing can be recorded`,
      "make the file writable",
    );
  }
}

/** How many events are searched, and how far back: older restores were reported before. */
const EVENT_LIMIT = 1_000;
const RECENT_MS = 24 * 3_600_000;

/**
 * Reports a recent roll-back of a shared store. Reports nothing if the store is not shared or cannot be read: another
 * check does.
 */
export async function checkStoreHistory({ home, storePath }: StateDirectory): Promise<Check[]> {
  const lost = notRestoredChecks(await readUnrestored(localCopyDirectory(home)));
  try {
    if ((await databaseUrl()) === null) return [];
    await using store = await openStoreForReading(storePath);
    if (store === null) return [];
    const newest = await store.listEvents({ newestFirst: true, limit: EVENT_LIMIT });
    const since = Date.now() - RECENT_MS;
    const told = newest.filter(
      (event) =>
        event.type === "reconcile" &&
        event.data.row === "forgotten" &&
        event.data.action === "restore" &&
        event.at >= since,
    );
    if (told[0] === undefined)
      return [ok("store history", "no records were lost by a restore or a fail-over lately"), ...lost];
    const when = new Date(told[0].at).toISOString();
    return [
      warn(
        "store history",
        `it had gone back in time; ${told.length} records were put back, the last at ${when}`,
        "events, tokens, approvals and agent turns of that time are lost; see Outages in docs/reference/postgres.md, and use synchronous replication if they must not be lost",
      ),
      ...lost,
    ];
  } catch {
    return lost;
  }
}

/** One warning for all of them; `tasks audit` lists each record. */
function notRestoredChecks(found: readonly UnrestoredRecord[]): Check[] {
  const [first] = found;
  if (first === undefined) return [];
  const others = found.length === 1 ? "" : ` (and ${found.length - 1} more)`;
  return [warn("not restored", `${first.detail}${others}`, "`holdfast tasks audit` lists them")];
}
