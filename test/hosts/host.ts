import { execFile, spawn, type ChildProcess } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { defaults } from "../../src/defaults.js";
import { createClient, type GatewayClient } from "../../src/gateway/client.js";
import type { AskedOf } from "../../src/gateway/contract/contract.js";
import { gatewaySocket } from "../../src/gateway/server/listen.js";
import { readOperatorToken } from "../../src/gateway/server/requester.js";
import type { ProcessIdentity } from "../../src/store/run-record.js";
import { Gateway } from "../cli/field.js";
import { going, main, sees, type Finished, type Going } from "../cli/stage.js";
import { look, signal, until } from "../tree/living.js";
import type { Link, Network } from "./network.js";

const anchor = resolve("build/anchor");
const hurried = fileURLToPath(new URL("children/hurried.mjs", import.meta.url));

export interface HostOptions {
  readonly name: string;
  /** The last part of its address. */
  readonly number: number;
  /** Of all hosts; this one's files are below. */
  readonly directory: string;
  readonly network: Network;
  /** Of the database. */
  readonly url: string;
}

/**
 * A machine made of namespaces: its own processes, network, name, machine id and boot id. The state directory has the
 * same path on all of them, and is another on each. Whatever is started in it ends with it.
 */
export class Host implements AsyncDisposable {
  readonly name: string;
  /** Its state directory, by the path it has there, and by the one it has here. */
  readonly home: string;
  readonly files: string;
  /** As records have it. */
  readonly hostId: string;
  readonly #options: HostOptions;
  readonly #machineId: string;
  #machine: ChildProcess | null = null;
  #init = 0;
  /** The processes here that wait for one there. */
  readonly #ways = new Set<ChildProcess>();
  #link: Link | null = null;
  #bystander = 0;
  #gateway: Gateway | null = null;

  private constructor(options: HostOptions) {
    this.name = options.name;
    this.#options = options;
    this.home = join(options.directory, "home");
    this.files = join(options.directory, options.name);
    this.#machineId = randomUUID().replaceAll("-", "");
    this.hostId = createHash("sha256").update(`holdfast ${this.#machineId}`).digest("hex").slice(0, 32);
  }

  static async open(options: HostOptions): Promise<Host> {
    const host = new Host(options);
    await mkdir(host.files, { mode: 0o700 });
    await mkdir(host.home, { recursive: true, mode: 0o700 });
    await writeFile(join(options.directory, `${host.name}.machine`), `${host.#machineId}\n`);
    await host.boot();
    return host;
  }

  /** Anew: same machine, same disk, another boot. */
  async boot(): Promise<void> {
    const { name, number, directory, network } = this.#options;
    const boot = join(directory, `${name}.boot`);
    await writeFile(boot, `${randomUUID()}\n`);
    const script = `exec 2>&1; hostname "$1" && mount --bind "$2" /etc/machine-id &&
      mount --bind "$3" /proc/sys/kernel/random/boot_id && mount --bind "$4" "$5" && echo up && exec cat`;
    const facts = [name, join(directory, `${name}.machine`), boot, this.files, this.home];
    const machine = spawn(
      "unshare",
      [
        ...["--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"],
        ...[anchor, "init", "--", "sh", "-c", script, "sh", ...facts],
      ],
      { stdio: ["pipe", "pipe", "ignore"] },
    );
    this.#machine = machine;
    await sees(machine.stdout, "up");
    this.#init = childrenOf(machine.pid ?? 0)[0] ?? 0;
    this.#link = await network.join(this.#init, number);
    const { pid = 0 } = this.spawn(["sleep", "3600"], "ignore");
    this.#bystander = await until("the bystander is there", () =>
      childrenOf(pid).find((one) => look(one)?.argv[0] === "sleep"),
    );
  }

  get env(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      HOLDFAST_HOME: this.home,
      HOLDFAST_DATABASE_URL: this.#options.url,
      // The file system of cgroups is one for all hosts here.
      HOLDFAST_ANCHOR_WEAKEN: "cgroup",
    };
  }

  spawn(argv: readonly string[], stderr: "pipe" | "ignore"): ChildProcess {
    const [command = "", ...args] = [...this.#within, ...argv];
    const child = spawn(command, args, { env: this.env, stdio: ["pipe", "pipe", stderr] });
    this.#ways.add(child);
    child.once("close", () => this.#ways.delete(child));
    return child;
  }

  async holdfast(...args: readonly string[]): Promise<Finished> {
    const { child, finished } = this.#start([main, ...args]);
    child.stdin.end();
    return finished;
  }

  /** Up and through its first look. With some numbers of its own, where a test is about time. */
  async gateway(numbers: Partial<Record<keyof typeof defaults, number>> | null = null): Promise<Gateway> {
    const program = numbers === null ? [main] : [hurried, resolve("dist"), JSON.stringify(numbers)];
    const startWith = (_: NodeJS.ProcessEnv, ...args: readonly string[]): Going =>
      this.#start([...program, ...args]);
    this.#gateway = new Gateway({ startWith }, {});
    await this.#gateway.settled;
    return this.#gateway;
  }

  async client(): Promise<GatewayClient> {
    const token = (await readOperatorToken(this.files)) ?? "";
    return createClient({ socketPath: gatewaySocket(this.files), token });
  }

  /** A run in the background; its id. */
  async script(script: string, body: Partial<AskedOf<"exec">["body"]> = {}): Promise<string> {
    const { exec } = await this.client();
    const { run } = await exec({
      body: { argv: ["sh", "-c", script], background: true, graceMs: 200, ...body },
    });
    return run.runId;
  }

  /** The gateway, and nobody else. */
  async killGateway(): Promise<void> {
    if (this.#gateway === null) throw new Error(`no gateway was started on ${this.name}`);
    const { pid } = await this.#gateway.hears("up");
    await this.#do("kill", "-KILL", String(pid));
    await this.#gateway.finished;
  }

  /** Everybody on it stands still. */
  async stop(): Promise<void> {
    await until(`${this.name} stands still`, () => {
      const going = this.#everybody().filter((pid) => !["T", undefined].includes(look(pid)?.state));
      for (const pid of going) hit(pid, "SIGSTOP");
      return going.length === 0;
    });
  }

  goOn(): void {
    for (const pid of this.#everybody()) hit(pid, "SIGCONT");
    // nsenter stops when its child does.
    for (const way of this.#ways) way.kill("SIGCONT");
  }

  /** A power cut. */
  async cut(): Promise<void> {
    if (this.#machine === null) return;
    const off = once(this.#machine, "close");
    // All others of its namespace are gone before the first is.
    process.kill(this.#init, "SIGKILL");
    this.goOn();
    await off;
    this.#machine = null;
    await this.#gateway?.finished;
  }

  /** As records have it. */
  get pidNamespace(): string {
    return namespaceOf(this.#init) ?? "";
  }

  async unplug(): Promise<void> {
    await this.#link?.cut();
  }

  async plug(): Promise<void> {
    await this.#link?.mend();
  }

  /** Into a file of its, which may be one that somebody reads from. */
  async write(path: string, words: string): Promise<void> {
    await this.#do("sh", "-c", 'printf %s "$1" >"$2"', "sh", words, path);
  }

  /** Whoever has these words in its command line there. */
  running(words: string): number[] {
    return this.#everybody().filter((pid) => look(pid)?.argv.join(" ").includes(words) === true);
  }

  /** As a record would name it. */
  async bystander(): Promise<ProcessIdentity> {
    const seen = readFileSync(`/proc/${this.#bystander}/status`, "utf8");
    const child = this.spawn([anchor, "inspect", "--brief"], "ignore");
    child.stdin?.end(/^NSpid:.*\s(\d+)$/m.exec(seen)?.[1]);
    const said = await text(child.stdout as Readable);
    const { pid, startTime, uniqueId } = JSON.parse(said) as ProcessIdentity;
    return { pid, startTime, uniqueId };
  }

  /** Whether this boot's bystander lives. */
  get unharmed(): boolean {
    return this.#everybody().includes(this.#bystander);
  }

  get #within(): readonly string[] {
    return ["nsenter", `--target=${this.#init}`, "--mount", "--uts", "--net", "--pid"];
  }

  #start(words: readonly string[]): Going {
    return going(this.spawn([process.execPath, ...words], "pipe") as Going["child"]);
  }

  async #do(...argv: readonly string[]): Promise<string> {
    const [command = "", ...args] = [...this.#within, ...argv];
    return (await promisify(execFile)(command, args)).stdout;
  }

  /** Numbers are those of this side. */
  #everybody(): number[] {
    const own = namespaceOf(this.#init);
    if (own === null) return [];
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name) && namespaceOf(Number(name)) === own)
      .map(Number);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cut();
  }
}

/** Somebody of a host, who may have left meanwhile. */
function hit(pid: number, name: NodeJS.Signals): void {
  const one = look(pid);
  if (one !== null) signal(one, name);
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
