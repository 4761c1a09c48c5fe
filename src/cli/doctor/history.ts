import { databaseUrl } from "../../config/database-url.js";
import { localCopyDirectory } from "../../store/local-copy/run-copy.js";
import { readUnrestored, type UnrestoredRecord } from "../../store/local-copy/unrestored.js";
import { openStoreForReading } from "../../store/open.js";
import type { StateDirectory } from "../../home/state-directory.js";
import { ok, warn, type Check } from "./check.js";

/** Of the events, how many are looked at, and how far back: what was put back long ago has been seen by now. */
const EVENT_LIMIT = 1_000;
const RECENT_MS = 24 * 3_600_000;

/** Whether a shared store has gone back in time lately. None, where it is not shared or cannot be asked: that is said elsewhere. */
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
        "events, tokens, approvals and agent turns of that time are lost; see Outages in docs/postgres.md, and use synchronous replication if they must not be lost",
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
