import { constants } from "node:fs";
import { type FileHandle, mkdir, open, stat } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { InstanceLocked } from "../errors.js";
import { acquireInstanceLock, type FileLock, isInstanceLockFree } from "../store/instance-lock.js";
import { askAnchor } from "./ask.js";
import { findAnchor } from "./find.js";

/**
 * What a holder finds when it looks at its locks again. `restored`: the lock file or the instance directory had been
 * removed and is there and locked again. `unlocked`: the state directory itself is gone or another one, so there is
 * nothing to lock. `taken`: another process holds the instance now.
 */
export type HoldState = "held" | "restored" | "unlocked" | "taken";

export interface InstanceHold extends AsyncDisposable {
  check(): Promise<HoldState>;
}

/** Removers hold the directory's lock for milliseconds, and each look at it costs a process. */
const REMOVERS_GONE_MS = 200;
const RETRY_MS = 20;

/** Both are held open here too: a lock must not end with a garbage collection. */
interface Locks {
  readonly directory: FileHandle | null;
  readonly file: FileLock;
}
const heldLocks = new Set<Locks>();

/**
 * Hold an instance with two kernel-held locks: on `instance.lock`, which everybody can ask about, and on the directory
 * itself, which stays when the file is deleted. Rejects with InstanceLocked when another process holds either.
 */
export async function holdInstance(instanceDir: string): Promise<InstanceHold> {
  let locks = await lockBoth(instanceDir);
  heldLocks.add(locks);
  const home = await inodeOf(homeOf(instanceDir));
  let repairing: Promise<HoldState> | null = null;

  const replace = (next: Locks): void => {
    heldLocks.delete(locks);
    locks = next;
    heldLocks.add(next);
  };
  const repair = async (): Promise<HoldState> => {
    const sameDirectory = await isAt(instanceDir, locks.directory);
    if (home === null || (await inodeOf(homeOf(instanceDir))) !== home)
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
      // Never an answer of an earlier look: what happened between the two would be missed.
      if ((await isAt(instanceDir, locks.directory)) && (await locks.file.isInPlace())) return "held";
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

/** The directory first: whoever is refused has made no lock file that others would find free. */
async function lockBoth(instanceDir: string): Promise<Locks> {
  const until = performance.now() + REMOVERS_GONE_MS;
  for (;;) {
    const directory = await lockDirectory(instanceDir);
    if (directory !== "held") {
      try {
        const file = await acquireInstanceLock(instanceDir);
        // It may have been removed and made anew meanwhile; a lock on the removed one locks nothing.
        if (await isAt(instanceDir, directory)) return { directory, file };
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

/** Null: directories cannot be locked here, and the file's lock has to do. */
async function lockDirectory(path: string): Promise<FileHandle | "held" | null> {
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  // An anchor that cannot be asked is complained of by whoever needs it to start something.
  const [answer] = await askAnchor(findAnchor(), ["lock"], "", [directory.fd]).catch(() => []);
  if (answer === '"locked"') return directory;
  await directory.close();
  return answer === '"held"' ? "held" : null;
}

async function isAt(path: string, directory: FileHandle | null): Promise<boolean> {
  if (directory === null) return true;
  const { dev, ino } = await directory.stat({ bigint: true });
  return (await inodeOf(path)) === `${dev}:${ino}`;
}

async function inodeOf(path: string): Promise<string | null> {
  return stat(path, { bigint: true }).then(
    ({ dev, ino }) => `${dev}:${ino}`,
    () => null,
  );
}

/** `<home>/instances/<instanceId>` */
function homeOf(instanceDir: string): string {
  return dirname(dirname(instanceDir));
}
