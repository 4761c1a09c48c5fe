import { execFile, spawn, type ChildProcess } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import type { ProcessIdentity } from "../../../src/model/process.js";
import { waitForText } from "../../support/cli/cli-fixture.js";
import { readProcess, signalProcess } from "../../support/live-processes.js";
import type { NetworkLink, TestNetwork } from "./test-network.js";
import { waitFor } from "../../support/wait-for.js";

const anchor = resolve("build/anchor");

export interface TestMachineOptions {
  readonly name: string;
  /** The last part of its address. */
  readonly number: number;
  /** The directory of all machines; this one's files are below it. */
  readonly directory: string;
  readonly network: TestNetwork;
}

/**
 * A machine made of namespaces: its own processes, network, name, machine id and boot id. Its disk has the same path on
 * all of them, and is another on each. Whatever is started in it ends with it.
 */
export class TestMachine implements AsyncDisposable {
  readonly name: string;
  /** Its disk, by the path it has there, and by the one it has here. */
  readonly home: string;
  readonly files: string;
  /** In the format of records. */
  readonly hostId: string;
  readonly #options: TestMachineOptions;
  readonly #machineId = randomUUID().replaceAll("-", "");
  /** The processes here that wait for one there. */
  readonly #entered = new Set<ChildProcess>();
  #namespaceHolder: ChildProcess | null = null;
  #init = 0;
  #link: NetworkLink | null = null;
  #bystander = 0;

  constructor(options: TestMachineOptions) {
    this.#options = options;
    this.name = options.name;
    this.home = join(options.directory, "home");
    this.files = join(options.directory, options.name);
    this.hostId = createHash("sha256").update(`holdfast ${this.#machineId}`).digest("hex").slice(0, 32);
  }

  /** Every time another boot of the same machine, with the same disk and a bystander of its own. */
  async boot(): Promise<void> {
    const { name, number, directory, network } = this.#options;
    for (const path of [this.files, this.home]) await mkdir(path, { recursive: true, mode: 0o700 });
    const ids = { machine: join(directory, `${name}.machine`), boot: join(directory, `${name}.boot`) };
    await writeFile(ids.machine, `${this.#machineId}\n`);
    await writeFile(ids.boot, `${randomUUID()}\n`);
    const script = `exec 2>&1; hostname "$1" && mount --bind "$2" /etc/machine-id &&
      mount --bind "$3" /proc/sys/kernel/random/boot_id && mount --bind "$4" "$5" && echo up && exec cat`;
    this.#namespaceHolder = spawn(
      "unshare",
      [
        ...["--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"],
        ...[anchor, "init", "--", "sh", "-c", script, "sh"],
        ...[name, ids.machine, ids.boot, this.files, this.home],
      ],
      { stdio: ["pipe", "pipe", "ignore"] },
    );
    await waitForText(this.#namespaceHolder.stdout as Readable, "up");
    const [init] = childrenOf(this.#namespaceHolder.pid ?? 0);
    if (init === undefined || namespaceOf(init) === namespaceOf(process.pid))
      throw new Error(`${name} has no processes of its own`);
    this.#init = init;
    this.#link = await network.join(init, number);
    const { pid = 0 } = this.enter(["sleep", "3600"], "ignore", process.env);
    this.#bystander = await waitFor("the bystander is there", () =>
      childrenOf(pid).find((one) => readProcess(one)?.argv[0] === "sleep"),
    );
  }

  /** Starts a command there; its streams are here. */
  enter(argv: readonly string[], stderr: "pipe" | "ignore", env: NodeJS.ProcessEnv): ChildProcess {
    const [command = "", ...args] = [...this.#within, ...argv];
    const child = spawn(command, args, { env, stdio: ["pipe", "pipe", stderr] });
    this.#entered.add(child);
    child.once("close", () => this.#entered.delete(child));
    return child;
  }

  /** Does something there, and waits for it. */
  async run(...argv: readonly string[]): Promise<void> {
    const [command = "", ...args] = [...this.#within, ...argv];
    await promisify(execFile)(command, args);
  }

  get #within(): readonly string[] {
    return ["nsenter", `--target=${this.#init}`, "--mount", "--uts", "--net", "--pid"];
  }

  /** In the format of records. */
  get pidNamespace(): string {
    return namespaceOf(this.#init) ?? "";
  }

  /** The pids of all its processes, in the namespace of the test. */
  allPids(): number[] {
    const own = namespaceOf(this.#init);
    if (own === null) return [];
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name) && namespaceOf(Number(name)) === own)
      .map(Number);
  }

  /** Processes with these words in their command line. */
  pidsOf(words: string): number[] {
    return this.allPids().filter((pid) => readProcess(pid)?.argv.join(" ").includes(words) === true);
  }

  /** True if the bystander of this boot is alive. */
  get bystanderAlive(): boolean {
    return this.allPids().includes(this.#bystander);
  }

  /** In the format of a record. */
  async bystander(): Promise<ProcessIdentity> {
    const seen = readFileSync(`/proc/${this.#bystander}/status`, "utf8");
    const child = this.enter([anchor, "inspect", "--brief"], "ignore", process.env);
    child.stdin?.end(/^NSpid:.*\s(\d+)$/m.exec(seen)?.[1]);
    const output = await text(child.stdout as Readable);
    const { pid, startTime, uniqueId } = JSON.parse(output) as ProcessIdentity;
    return { pid, startTime, uniqueId };
  }

  /** Stops all its processes. */
  async suspend(): Promise<void> {
    await waitFor(`${this.name} is stopped`, () => {
      const moving = this.allPids().filter((pid) => !["T", undefined].includes(readProcess(pid)?.state));
      for (const pid of moving) signalIfAlive(pid, "SIGSTOP");
      return moving.length === 0;
    });
  }

  resume(): void {
    for (const pid of this.allPids()) signalIfAlive(pid, "SIGCONT");
    // nsenter stops when its child does.
    for (const way of this.#entered) way.kill("SIGCONT");
  }

  /** A power cut. */
  async powerOff(): Promise<void> {
    if (this.#namespaceHolder === null) return;
    const off = once(this.#namespaceHolder, "close");
    // The kernel ends all processes of the namespace before its first one.
    signalIfAlive(this.#init, "SIGKILL");
    this.resume();
    await off;
    this.#namespaceHolder = null;
  }

  async unplug(): Promise<void> {
    await this.#link?.cut();
  }

  async plug(): Promise<void> {
    await this.#link?.mend();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.powerOff();
  }
}

function signalIfAlive(pid: number, name: NodeJS.Signals): void {
  const one = readProcess(pid);
  if (one !== null) signalProcess(one, name);
}

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean).map(Number);
}

function namespaceOf(pid: number): string | null {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`);
  } catch {
    return null; // Gone meanwhile.
  }
}
