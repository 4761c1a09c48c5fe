import { execFile, spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const path = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const UNSHARE = ["--pid", "--fork", "--mount-proc", "--kill-child"];

/** True if a PID namespace can be created in which the next pid can be chosen, and a C compiler is installed. */
export function canCreatePidNamespace(): boolean {
  if (spawnSync("cc", ["--version"], { stdio: "ignore" }).status !== 0) return false;
  const choose = "echo 100 > /proc/sys/kernel/ns_last_pid";
  return spawnSync("unshare", [...UNSHARE, "sh", "-c", choose], { stdio: "ignore" }).status === 0;
}

/** Runs drivers in their own PID namespaces. Processes that they leave end with the namespace. */
export class PidNamespaces implements AsyncDisposable {
  readonly #directory: string;
  readonly #helper: string;

  static async open(): Promise<PidNamespaces> {
    const directory = await mkdtemp(join(tmpdir(), "hf-reuse-"));
    const helper = join(directory, "reuse");
    const flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror"];
    await run("cc", [...flags, "-o", helper, path("native/reuse.c")]);
    return new PidNamespaces(directory, helper);
  }

  private constructor(directory: string, helper: string) {
    this.#directory = directory;
    this.#helper = helper;
  }

  /** Resolves with the output of the driver, a file of `children/`. */
  async runDriver(
    driver: string | URL,
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
  ): Promise<unknown> {
    const script = typeof driver === "string" ? path(`children/${driver}.mjs`) : fileURLToPath(driver);
    const command = [process.execPath, script, this.#helper, ...args];
    // The shell stays, because PID 1 must reap the orphans.
    const { stdout } = await run("unshare", [...UNSHARE, "sh", "-c", '"$@"; exit $?', "sh", ...command], {
      env: { ...process.env, ...env },
    });
    return JSON.parse(stdout);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true });
  }
}
