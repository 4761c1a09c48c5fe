import { lstat, readdir, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { BadInput, InstanceLocked } from "../../errors.js";
import { errnoCode } from "../../home/errno.js";
import { isInstanceLockFree } from "../../home/instance-lock.js";
import type { LocalInstance } from "../host.js";
import { isLauncherListening } from "../protocol/connection.js";
import { isSafeId, RunDirectories } from "../run-dir/run-directories.js";
import { holdInstance } from "./instance-hold.js";
import { isRemoved, removeRunCgroups } from "./run-cgroups.js";

/** The instances of one state directory: this one's, and those of all who share it or did. */
export class InstanceDirectories {
  readonly ownInstanceId: string;
  readonly #path: string;
  readonly #ownDirectory: string;
  readonly #ownRuns: RunDirectories;

  constructor(home: string, own: { readonly instanceId: string; readonly instanceDir: string }) {
    this.#path = join(home, "instances");
    this.ownInstanceId = own.instanceId;
    this.#ownDirectory = own.instanceDir;
    this.#ownRuns = new RunDirectories(own.instanceDir);
  }

  /** An id of the same shape as a run's: it too is a file name and part of a cgroup path. */
  pathOf(instanceId: string): string {
    if (!isSafeId(instanceId))
      throw new BadInput(
        "instanceId",
        `${JSON.stringify(instanceId)} is no instance id; nothing was touched`,
      );
    return instanceId === this.ownInstanceId ? this.#ownDirectory : join(this.#path, instanceId);
  }

  runs(instanceId: string): RunDirectories {
    return instanceId === this.ownInstanceId ? this.#ownRuns : new RunDirectories(this.pathOf(instanceId));
  }

  async list(): Promise<readonly LocalInstance[]> {
    const entries = await readdir(this.#path, { withFileTypes: true }).catch((error: unknown) => {
      if (errnoCode(error) === "ENOENT") return [];
      throw error;
    });
    const ids = entries
      .filter((entry) => entry.isDirectory() && isSafeId(entry.name))
      .map(({ name }) => name);
    return Promise.all(
      ids.map(async (instanceId) => {
        const directory = this.pathOf(instanceId);
        const [alive, launched] = await Promise.all([
          instanceId === this.ownInstanceId || isInstanceHeld(directory),
          isLauncherListening(directory),
        ]);
        return { instanceId, alive, launched };
      }),
    );
  }
}

/** A lock that cannot be read proves nothing: its instance is left alone, like a live one. */
async function isInstanceHeld(directory: string): Promise<boolean> {
  return isInstanceLockFree(directory).then(
    (free) => !free,
    () => true,
  );
}

/** Everything an instance directory ever holds besides `runs`. Anything else was put there by somebody. */
const KNOWN_FILES = [
  "launcher.sock",
  "launcher.json",
  ".launcher.json.new",
  "gateway.json",
  "gateway.json.new",
  "config.toml",
  "config.toml.new",
  "instance.lock-journal",
  "instance.lock-wal",
  "instance.lock-shm",
  // Last: while it is there, the directory is an instance.
  "instance.lock",
];

/** Remove a dead instance's directory, if nothing of its runs is left in it. False: it stays, as it was. */
export async function removeInstance(instanceDir: string, instanceId: string): Promise<boolean> {
  const found = await lstat(instanceDir).catch(() => null);
  if (found === null) return true;
  if (!found.isDirectory() || !(await isUnused(instanceDir)) || !(await isLockFree(instanceDir)))
    return false;
  const lock = await holdInstance(instanceDir).catch((error: unknown) => {
    if (error instanceof InstanceLocked) return null;
    throw error;
  });
  if (lock === null) return false;
  try {
    // Somebody may have come and gone before the lock was ours.
    if (!(await isUnused(instanceDir)) || !(await removeRunCgroups(instanceDir, instanceId))) return false;
    if (!(await isRemoved(rmdir(join(instanceDir, "runs"))))) return false;
    for (const name of KNOWN_FILES) await unlink(join(instanceDir, name)).catch(() => {});
    return await isRemoved(rmdir(instanceDir));
  } finally {
    await lock[Symbol.asyncDispose]();
  }
}

/** No run directory, nobody who could make one, and nothing unknown. */
async function isUnused(instanceDir: string): Promise<boolean> {
  const names = await readdir(instanceDir).catch(() => []);
  if (names.some((name) => name !== "runs" && !KNOWN_FILES.includes(name))) return false;
  const runs = await readdir(join(instanceDir, "runs")).catch((error: unknown) =>
    errnoCode(error) === "ENOENT" ? [] : null,
  );
  return runs?.length === 0 && !(await isLauncherListening(instanceDir));
}

async function isLockFree(instanceDir: string): Promise<boolean> {
  return isInstanceLockFree(instanceDir).catch(() => false);
}
