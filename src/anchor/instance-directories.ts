import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { BadInput } from "../errors.js";
import { isInstanceLockFree } from "../store/instance-lock.js";
import { launcherListens } from "./connect.js";
import { errorCode } from "./error-code.js";
import type { LocalInstance } from "./host.js";
import { isRunId, RunDirectories } from "./run-directory.js";

/** The instances of one state directory: this one's, and those of all who share it or did. */
export class InstanceDirectories {
  readonly own: string;
  readonly #path: string;
  readonly #ownDirectory: string;
  readonly #ownRuns: RunDirectories;

  constructor(home: string, own: { readonly instanceId: string; readonly instanceDir: string }) {
    this.#path = join(home, "instances");
    this.own = own.instanceId;
    this.#ownDirectory = own.instanceDir;
    this.#ownRuns = new RunDirectories(own.instanceDir);
  }

  /** An id of the same shape as a run's: it too is a file name and part of a cgroup path. */
  of(instanceId: string): string {
    if (!isRunId(instanceId))
      throw new BadInput(
        "instanceId",
        `${JSON.stringify(instanceId)} is no instance id; nothing was touched`,
      );
    return instanceId === this.own ? this.#ownDirectory : join(this.#path, instanceId);
  }

  runs(instanceId: string): RunDirectories {
    return instanceId === this.own ? this.#ownRuns : new RunDirectories(this.of(instanceId));
  }

  async list(): Promise<readonly LocalInstance[]> {
    const entries = await readdir(this.#path, { withFileTypes: true }).catch((error: unknown) => {
      if (errorCode(error) === "ENOENT") return [];
      throw error;
    });
    const ids = entries.filter((entry) => entry.isDirectory() && isRunId(entry.name)).map(({ name }) => name);
    return Promise.all(
      ids.map(async (instanceId) => {
        const directory = this.of(instanceId);
        const [alive, launched] = await Promise.all([
          instanceId === this.own || isHeld(directory),
          launcherListens(directory),
        ]);
        return { instanceId, alive, launched };
      }),
    );
  }
}

/** A lock that cannot be read proves nothing: its instance is left alone, like a live one. */
async function isHeld(directory: string): Promise<boolean> {
  return isInstanceLockFree(directory).then(
    (free) => !free,
    () => true,
  );
}
