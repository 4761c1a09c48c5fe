import { lstatSync } from "node:fs";
import { access, constants, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { databaseUrl } from "../../config/database-url.js";
import { defaults } from "../../defaults.js";
import { HoldfastError } from "../../errors.js";
import { reachGateway } from "../locate-gateway.js";
import { errorMessage } from "../../home/errno.js";
import { isInProfile, requireOwnSocket } from "../../home/path-trust.js";
import { isCorruption } from "../../home/sqlite-errors.js";
import { gatewaySocketPath, type StateDirectory } from "../../home/state-directory.js";
import { localCopyDirectory } from "../../store/local-copy/run-copy.js";
import { readUnrestored, type UnrestoredRecord } from "../../store/local-copy/task-copy.js";
import { checkStore, openStoreForReading } from "../../store/open.js";
import { findStateDirectory } from "../../store/open-state-directory.js";
import { SCHEMA_VERSION } from "../../store/sql/migrations.js";
import { formatDuration, formatElapsed, formatSize } from "../../text/format-units.js";
import { bad, type Check, ok, warn } from "./check-result.js";

/** With less space, spools and the store's log will soon be full. */
const MIN_FREE_BYTES = 256 * 1024 * 1024;

export async function checkState(home: string): Promise<{
  readonly checks: Check[];
  readonly directory: StateDirectory | null;
}> {
  try {
    const directory = await findStateDirectory(home);
    if (directory === null)
      return {
        checks: [ok("state directory", `${home} does not exist yet; the first run creates it`)],
        directory,
      };
    return {
      checks: [await checkDiskSpace(home), checkAccess(home), await checkStoreContent(directory)],
      directory,
    };
  } catch (error) {
    const detail = error instanceof HoldfastError ? error.message : `${home}: ${String(error)}`;
    return { checks: [bad("state directory", detail)], directory: null };
  }
}

/** Checks the token file and the socket. The directories above were checked when the state directory was found. */
function checkAccess(home: string): Check {
  const name = "access";
  const token = join(home, "operator-token");
  const tokenMode = lstatSync(token, { throwIfNoEntry: false })?.mode ?? 0;
  if (!hasModes) return profileCheck(home, isInProfile(home));
  if ((tokenMode & 0o077) !== 0)
    return warn(
      name,
      `${token} has mode ${(tokenMode & 0o777).toString(8).padStart(4, "0")}: other users can use the operator's token`,
      `chmod 600 '${token}'`,
    );
  try {
    requireOwnSocket(gatewaySocketPath(home));
  } catch (error) {
    return bad(name, errorMessage(error));
  }
  return ok(
    name,
    "only this user and root can replace the state directory, its sockets and the directories above it",
  );
}

/** Windows has access control lists instead. */
const hasModes = process.platform !== "win32";

/** The list of a profile admits its user, administrators and the system; the lists of other directories are not read. */
export function profileCheck(home: string, inProfile: boolean): Check {
  return inProfile
    ? ok(
        "access",
        "the state directory is in the user's profile, which only this user and administrators can open",
      )
    : warn(
        "access",
        `${home} is outside of the user's profile, and Windows may let other users write there`,
        `check it: icacls "${home}"; or unset HOLDFAST_HOME`,
      );
}

async function checkDiskSpace(home: string): Promise<Check> {
  const [{ bavail, bsize, ffree, files }, { mode }] = await Promise.all([statfs(home), stat(home)]);
  const free = bavail * bsize;
  const name = "state directory";
  const shownMode = hasModes ? `mode ${(mode & 0o777).toString(8).padStart(4, "0")}, ` : "";
  const detail = `${home}, ${shownMode}${formatSize(free)} free`;
  if (hasModes && (mode & 0o077) !== 0)
    return warn(name, `${detail}; other users can read it`, `chmod 700 '${home}'`);
  if (free < MIN_FREE_BYTES)
    return warn(
      name,
      `${detail}: soon there is no space for output`,
      "free some space, or set HOLDFAST_HOME to another disk",
    );
  // Some file systems have no fixed number of inodes and report 0 of 0.
  if (files > 0 && ffree < 1_000)
    return warn(name, `${detail}, but only ${ffree} more files can be created`, "remove files on that disk");
  return ok(name, detail);
}

async function checkStoreContent({ storePath }: StateDirectory): Promise<Check> {
  try {
    const found = await checkStore(storePath);
    if (found === null)
      return ok(
        "store",
        (await databaseUrl()) === null ? `${storePath} does not exist yet` : "the database has none yet",
      );
    const { schema, damage, runs, events, mostEvents, logBytes } = found;
    const later =
      schema > SCHEMA_VERSION
        ? ` (of a newer version; this version knows schema ${SCHEMA_VERSION} and may use the store)`
        : "";
    const detail = `schema ${schema}${later}, ${runs.open} open and ${runs.ended} ended runs, ${events} events`;
    if (damage !== null) return bad("store", `${storePath} is damaged: ${damage}`, STORE_REPAIR);
    if (logBytes > 64 * 1024 * 1024)
      return warn(
        "store",
        `${detail}; its log has grown to ${formatSize(logBytes)}`,
        "end long-running readers of the store: the log cannot shrink while they read",
      );
    if (mostEvents > 2 * defaults.eventsKept) return warn("store", `${detail}: more events than are kept`);
    return ok("store", detail);
  } catch (error) {
    const detail = errorMessage(error);
    return bad("store", detail, isCorruption(error) ? STORE_REPAIR : null);
  }
}

const STORE_REPAIR =
  "stop the gateway, move store.sqlite, store.sqlite-wal and store.sqlite-shm away together, start it again: it creates a new store and takes over every live run from its run directory (docs/guides/repair.md)";

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
    const forMs = formatElapsed(since ?? Date.now());
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
    const restores = newest.filter(
      (event) =>
        event.type === "reconcile" &&
        event.data.row === "forgotten" &&
        event.data.action === "restore" &&
        event.at >= since,
    );
    if (restores[0] === undefined)
      return [
        ok("store history", "no records were lost by a restore or a fail-over in the last 24 hours"),
        ...lost,
      ];
    const when = new Date(restores[0].at).toISOString();
    return [
      warn(
        "store history",
        `the store was rolled back; ${restores.length} records were restored, the last at ${when}`,
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
