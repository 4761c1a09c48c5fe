import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { waitFor } from "../wait-for.js";

const freezers = "/sys/fs/cgroup/freezer";

/** A version-1 freezer holds its processes even against KILL, unlike version 2. */
export class CgroupFreezer implements AsyncDisposable {
  readonly #path = join(freezers, `hf-test-${randomBytes(6).toString("hex")}`);

  static readonly isAvailable = ((): boolean => {
    const probe = join(freezers, `hf-probe-${randomBytes(4).toString("hex")}`);
    try {
      mkdirSync(probe);
      writeFileSync(join(probe, "freezer.state"), "THAWED");
      return true;
    } catch {
      return false;
    } finally {
      removeDirectory(probe);
    }
  })();

  constructor() {
    mkdirSync(this.#path);
  }

  freeze(pid: number): void {
    writeFileSync(join(this.#path, "cgroup.procs"), String(pid));
    writeFileSync(join(this.#path, "freezer.state"), "FROZEN");
  }

  /** Before that a signal may still be handled. */
  async frozen(): Promise<void> {
    const state = join(this.#path, "freezer.state");
    await waitFor(() => readFileSync(state, "utf8").trim() === "FROZEN", 10_000);
  }

  /** Processes that were killed meanwhile die now. */
  async [Symbol.asyncDispose](): Promise<void> {
    writeFileSync(join(this.#path, "freezer.state"), "THAWED");
    await waitFor(() => removeDirectory(this.#path), 10_000);
  }
}

function removeDirectory(path: string): boolean {
  try {
    rmdirSync(path);
    return true;
  } catch {
    return false;
  }
}
