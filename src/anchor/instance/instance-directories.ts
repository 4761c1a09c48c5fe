import { lstat, readdir, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { BadInput, InstanceLocked } from "../../errors.js";
import { errnoCode } from "../../home/errno.js";
import { isInstanceLockFree } from "../../home/instance-lock.js";
import { isLauncherListening } from "../protocol/connection.js";
import { isSafeId, RunDirectories } from "../run-dir/run-directories.js";
import { holdInstance } from "./instance-hold.js";
import { isRemoved, removeRunCgroups } from "./run-cgroups.js";

/** An instance with a directory in this state directory. It is dead if no process holds its lock. */
export interface LocalInstance {
  readonly instanceId: string;
  readonly alive: boolean;
  /** The launcher of the instance listens: it kills the processes of dead anchors and writes `swept.json`. */
  readonly launched: boolean;
}

/** The instance directories of one state directory. */
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

  /** The id has the format of a run id, because it is also a file name and part of a cgroup path. */
  pathOf(instanceId: string): string {
    if (!isSafeId(instanceId))
      throw new BadInput(
        "instanceId",
        `${JSON.stringify(instanceId)} is not an instance id; nothing was touched`,
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

/** An instance whose lock cannot be read is treated as alive. */
async function isInstanceHeld(directory: string): Promise<boolean> {
  return isInstanceLockFree(directory).then(
    (free) => !free,
    () => true,
  );
}

/** All files of an instance directory besides `runs`. Other files were put there by a user. */
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
  // Last, because this file marks the directory as an instance.
  "instance.lock",
];

/** Removes a dead instance's directory if none of its runs are left. Returns false if the directory stays. */
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
    // A supervisor may have started and ended before the lock was acquired.
    if (!(await isUnused(instanceDir)) || !(await removeRunCgroups(instanceDir, instanceId))) return false;
    if (!(await isRemoved(rmdir(join(instanceDir, "runs"))))) return false;
    for (const name of KNOWN_FILES) await unlink(join(instanceDir, name)).catch(() => {});
    return await isRemoved(rmdir(instanceDir));
  } finally {
    await lock[Symbol.asyncDispose]();
  }
}

/** True if there is no run directory, no launcher that could create one, and no unknown file. */
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
