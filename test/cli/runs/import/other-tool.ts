import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { readProcess, type LiveProcess } from "../../../support/live-processes.js";

/** The state directory and processes of another tool. */
export class OtherTool implements AsyncDisposable {
  readonly directory: string;
  readonly #script: string;
  readonly #children: ChildProcess[] = [];

  constructor(home: string, script = "echo up\nread line\n") {
    this.directory = join(home, "other tool");
    this.#script = script;
  }

  /** Starts the tool's shell script under a name; resolves when the script has printed a line. */
  async start(name: string, ...args: readonly string[]): Promise<LiveProcess> {
    const path = join(this.directory, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, this.#script);
    const child = spawn("/bin/sh", [path, ...args], { stdio: ["pipe", "pipe", "ignore"], detached: true });
    this.#children.push(child);
    await once(child.stdout, "data");
    const living = readProcess(child.pid ?? 0);
    if (living === null) throw new Error("the process does not exist");
    return living;
  }

  async write(name: string, value: unknown): Promise<void> {
    const path = join(this.directory, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, JSON.stringify(value));
  }

  async contents(): Promise<readonly string[]> {
    const names = await readdir(this.directory, { recursive: true, withFileTypes: true });
    const files = names.filter((each) => each.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    return Promise.all(
      files.toSorted().map(async (file) => `${file} ${(await readFile(file)).toString("base64")}`),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      const gone = once(child, "exit");
      if (child.exitCode === null && child.signalCode === null && child.pid !== undefined) {
        process.kill(-child.pid, "SIGKILL");
        await gone;
      }
    }
  }
}
