import { lstat, readdir, rmdir, stat, statfs, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BadInput, InstanceLocked } from "../../errors.js";
import { errnoCode } from "../../home/errno.js";
import { isInstanceLockFree } from "../../home/instance-lock.js";
import { readOwnFile } from "../../home/own-file.js";
import { asArray, asNullable, asObject, asString, parseJson } from "../../text/parse-json.js";
import { isLauncherListening } from "../protocol/connection.js";
import { isSafeId, RunDirectories } from "../run-dir/run-directories.js";
import type { CgroupRef } from "../run-dir/run-file-types.js";
import { holdInstance } from "./hold-instance-locks.js";

type RunCgroup = CgroupRef & { readonly runId: string };

/** The part of `launcher.json` about the cgroups of an instance's runs. */
interface LauncherFile {
  /** The cgroup path as in the records; null if there is none. */
  readonly cgroup: string | null;
  /** The directory of the cgroup in the mounted file system. */
  readonly cgroupDirectory: string | null;
  /** Directories of cgroup v1 hierarchies that hold the limits of the runs. */
  readonly limitDirectories: readonly string[];
  /** Device and inode of the instance directory. */
  readonly device: string;
  readonly inode: string;
}

const CGROUP2_MAGIC = 0x63677270;

/** Lists the cgroups of an instance's runs. Empty unless they were provably created for this directory. */
export async function listRunCgroups(instanceDir: string, instanceId: string): Promise<readonly RunCgroup[]> {
  const all = await listCgroups(instanceDir, instanceId);
  // A warm anchor creates its directory before its cgroup, and removes it after its cgroup.
  const warm = new Set(all.length === 0 ? [] : await new RunDirectories(instanceDir).listWarm());
  return all.filter(({ runId }) => !warm.has(runId));
}

/** The same, with the cgroups of warm anchors. */
export async function listCgroups(instanceDir: string, instanceId: string): Promise<readonly RunCgroup[]> {
  const location = await findCgroupLocation(instanceDir, instanceId);
  if (location === null) return [];
  const entries = await readdir(location.directory, { withFileTypes: true }).catch(() => []);
  const found = entries
    .filter((entry) => entry.isDirectory() && isSafeId(entry.name))
    .map(async ({ name: runId }): Promise<RunCgroup | null> => {
      const inode = await inodeOf(join(location.directory, runId));
      return inode === null ? null : { runId, path: `${location.cgroup}/${runId}`, inode };
    });
  return (await Promise.all(found)).filter((boundary) => boundary !== null);
}

/**
 * Removes the cgroups that a killed launcher left. Returns false if one is still in use: the kernel removes only empty
 * ones.
 */
export async function removeRunCgroups(instanceDir: string, instanceId: string): Promise<boolean> {
  const location = await findCgroupLocation(instanceDir, instanceId);
  if (location === null) return true;
  const { directory } = location;
  const runs = await listCgroups(instanceDir, instanceId);
  await Promise.allSettled(runs.map(({ runId }) => rmdir(join(directory, runId))));
  if (!(await isRemoved(rmdir(directory)))) return false;
  await Promise.all(location.limitDirectories.map(removeLimitCgroups));
  // An anchor that was just killed may still be exiting.
  await isRemoved(rmdir(join(dirname(directory), "sup")));
  return isRemoved(rmdir(dirname(directory)));
}

async function isRemoved(removal: Promise<void>): Promise<boolean> {
  return removal.then(
    () => true,
    (error: unknown) => errnoCode(error) === "ENOENT",
  );
}

async function removeLimitCgroups(directory: string): Promise<void> {
  const names = await readdir(directory).catch(() => []);
  await Promise.allSettled(names.filter(isSafeId).map((runId) => rmdir(join(directory, runId))));
  await rmdir(directory).catch(() => {});
}

interface CgroupLocation {
  readonly cgroup: string;
  readonly directory: string;
  readonly limitDirectories: readonly string[];
}

async function findCgroupLocation(instanceDir: string, instanceId: string): Promise<CgroupLocation | null> {
  const parsed = await readLauncherFile(instanceDir);
  if (parsed === null || parsed.cgroup === null || parsed.cgroupDirectory === null) return null;
  const here = await stat(instanceDir, { bigint: true }).catch(() => null);
  // A copied or restored state directory must not claim the cgroups of the original.
  if (here === null || String(here.dev) !== parsed.device || String(here.ino) !== parsed.inode) return null;
  const base = `/holdfast-${instanceId}-${here.dev.toString(16)}-${here.ino.toString(16)}`;
  const tail = `${base}/runs`;
  if (!parsed.cgroup.endsWith(tail) || !parsed.cgroupDirectory.endsWith(tail)) return null;
  // Parts of the path may have been removed before.
  const mounted = await statfs(dirname(dirname(parsed.cgroupDirectory))).catch(() => null);
  if (mounted?.type !== CGROUP2_MAGIC) return null;
  return {
    cgroup: parsed.cgroup,
    directory: parsed.cgroupDirectory,
    limitDirectories: parsed.limitDirectories.filter((path) => path.endsWith(base)),
  };
}

async function readLauncherFile(instanceDir: string): Promise<LauncherFile | null> {
  const text = await readOwnFile(join(instanceDir, "launcher.json")).catch(() => null);
  if (text === null) return null;
  return parseJson(text, (value) => {
    const object = asObject(value);
    return {
      cgroup: asNullable(asString, object["cgroup"]),
      cgroupDirectory: asNullable(asString, object["cgroupDirectory"]),
      // Older launchers do not write this field.
      limitDirectories: (asNullable(asArray, object["limitDirectories"]) ?? []).map(asString),
      device: asString(object["device"]),
      inode: asString(object["inode"]),
    };
  });
}

async function inodeOf(path: string): Promise<string | null> {
  return stat(path, { bigint: true }).then(
    ({ ino }) => String(ino),
    () => null,
  );
}

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
    // Windows removes no file that is open: a supervisor that locks the instance now keeps its lock file.
    if (process.platform === "win32") await lock[Symbol.asyncDispose]();
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
