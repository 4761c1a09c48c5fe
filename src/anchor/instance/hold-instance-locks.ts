import { constants } from "node:fs";
import { type FileHandle, mkdir, open, stat } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { InstanceLocked } from "../../errors.js";
import { acquireInstanceLock, type FileLock, isInstanceLockFree } from "../../home/instance-lock.js";
import { findAnchorBinary } from "../binary.js";
import { runAnchorMode } from "../one-shot-modes.js";

/**
 * The state of an instance's locks. `restored`: the lock file or the instance directory had been removed and was
 * created and locked again. `unlocked`: the state directory is gone or was replaced, so there is nothing to lock.
 * `taken`: another process holds the instance.
 */
export type LockState = "held" | "restored" | "unlocked" | "taken";

export interface InstanceHold extends AsyncDisposable {
  check(): Promise<LockState>;
}

/** Removing an instance holds the directory lock for milliseconds. Each attempt to lock starts a process. */
const REMOVAL_WAIT_MS = 200;
const RETRY_MS = 20;

/** Locks are also referenced here, because garbage collection of a file handle would release its lock. */
interface InstanceLocks {
  readonly directory: FileHandle | null;
  readonly file: FileLock;
}
const heldLocks = new Set<InstanceLocks>();

/**
 * Holds an instance with two kernel locks: on `instance.lock`, which any process can query, and on the directory
 * itself, which stays when the file is deleted. Rejects with InstanceLocked if another process holds either.
 */
export async function holdInstance(instanceDir: string): Promise<InstanceHold> {
  let locks = await lockBoth(instanceDir);
  heldLocks.add(locks);
  const home = await deviceAndInode(stateDirectoryOf(instanceDir));
  let repairing: Promise<LockState> | null = null;

  const replace = (next: InstanceLocks): void => {
    heldLocks.delete(locks);
    locks = next;
    heldLocks.add(next);
  };
  const repair = async (): Promise<LockState> => {
    const sameDirectory = await isSameDirectory(instanceDir, locks.directory);
    if (home === null || (await deviceAndInode(stateDirectoryOf(instanceDir))) !== home)
      return (await isInstanceLockFree(instanceDir).catch(() => true)) ? "unlocked" : "taken";
    const former = locks;
    try {
      if (sameDirectory)
        replace({ directory: former.directory, file: await acquireInstanceLock(instanceDir) });
      else {
        await mkdir(instanceDir, { recursive: true, mode: 0o700 });
        replace(await lockBoth(instanceDir));
        await former.directory?.close();
      }
    } catch (error) {
      if (error instanceof InstanceLocked) return "taken";
      throw error;
    }
    await former.file[Symbol.asyncDispose]();
    return "restored";
  };
  return {
    async check() {
      // Results are not cached: a change since the last check would be missed.
      if ((await isSameDirectory(instanceDir, locks.directory)) && (await locks.file.isInPlace()))
        return "held";
      repairing ??= repair().finally(() => {
        repairing = null;
      });
      return repairing;
    },
    async [Symbol.asyncDispose]() {
      await repairing?.catch(() => undefined);
      heldLocks.delete(locks);
      await locks.file[Symbol.asyncDispose]();
      await locks.directory?.close();
    },
  };
}

/** Locks the directory first, so that a refused process leaves no unlocked lock file behind. */
async function lockBoth(instanceDir: string): Promise<InstanceLocks> {
  const until = performance.now() + REMOVAL_WAIT_MS;
  for (;;) {
    const directory = await lockDirectory(instanceDir);
    if (directory !== "held") {
      try {
        const file = await acquireInstanceLock(instanceDir);
        // The directory may have been removed and created again meanwhile; a lock on the removed one protects nothing.
        if (await isSameDirectory(instanceDir, directory)) return { directory, file };
        await file[Symbol.asyncDispose]();
      } catch (error) {
        await directory?.close();
        throw error;
      }
      await directory?.close();
    }
    if (performance.now() >= until) throw new InstanceLocked(basename(instanceDir));
    await delay(RETRY_MS);
  }
}

/** Null if the directory cannot be locked here; then only the lock on the file is used. */
async function lockDirectory(path: string): Promise<FileHandle | "held" | null> {
  // Windows does not delete a file that SQLite has open, so the lock on the file cannot be lost.
  if (process.platform === "win32") return null;
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  // A missing or broken anchor binary is reported when a run is started.
  const [answer] = await runAnchorMode(findAnchorBinary(), ["lock"], "", [directory.fd]).catch(() => []);
  if (answer === '"locked"') return directory;
  await directory.close();
  return answer === '"held"' ? "held" : null;
}

async function isSameDirectory(path: string, directory: FileHandle | null): Promise<boolean> {
  if (directory === null) return true;
  const { dev, ino } = await directory.stat({ bigint: true });
  return (await deviceAndInode(path)) === `${dev}:${ino}`;
}

async function deviceAndInode(path: string): Promise<string | null> {
  return stat(path, { bigint: true }).then(
    ({ dev, ino }) => `${dev}:${ino}`,
    () => null,
  );
}

/** `<home>/instances/<instanceId>` */
function stateDirectoryOf(instanceDir: string): string {
  return dirname(dirname(instanceDir));
}
