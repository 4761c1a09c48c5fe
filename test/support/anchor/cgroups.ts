import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findAnchorBinary } from "../../../src/anchor/binary.js";
import { probeLimits } from "../../../src/anchor/inspect/cgroups-and-limits.js";
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

/** Null if the user of the suite can set every limit. Otherwise the reason to skip. */
export const whyNoLimits: string | null = await (async () => {
  const places = await probeLimits(findAnchorBinary());
  const missing = places.filter(({ how }) => how !== "v1").map(({ controller }) => controller);
  return missing.length === 0 ? null : `no writable cgroup v1 hierarchy here for ${missing.join(", ")}`;
})();

/** The v1 directories of a state directory's runs that exist now. */
export function limitCgroups(home: string, instanceId: string, runId: string): string[] {
  const file = join(home, "instances", instanceId, "launcher.json");
  const said = JSON.parse(readFileSync(file, "utf8")) as { readonly limitDirectories: readonly string[] };
  return said.limitDirectories.map((path) => join(path, runId)).filter((path) => existsSync(path));
}

/** The cgroup of a process in the hierarchy of a v1 controller. */
export function cgroupOfProcess(pid: number, controller: string): string {
  const text = readFileSync(`/proc/${pid}/cgroup`, "utf8");
  return new RegExp(`^\\d+:(?:\\w+,)*${controller}(?:,\\w+)*:(.*)$`, "m").exec(text)?.[1] ?? "";
}
