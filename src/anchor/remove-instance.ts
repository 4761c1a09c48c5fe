import { lstat, readdir, rmdir, unlink } from "node:fs/promises";
import { join } from "node:path";
import { isInstanceLockFree } from "../home/instance-lock.js";
import { InstanceLocked } from "../errors.js";
import { isRemoved, removeRunCgroups } from "./instance/run-cgroups.js";
import { isLauncherListening } from "./connect.js";
import { errnoCode } from "./error-code.js";
import { holdInstance } from "./instance/instance-hold.js";

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
