import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { BadInput } from "../../errors.js";
import { isInstanceLockFree } from "../../home/instance-lock.js";
import { isLauncherListening } from "../connect.js";
import { errnoCode } from "../error-code.js";
import type { LocalInstance } from "../host.js";
import { isSafeId, RunDirectories } from "../run-dir/run-directories.js";

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
