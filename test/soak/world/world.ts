import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, openSync, closeSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createClient, type GatewayClient, GatewayError } from "../../../src/api/client.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { GatewayUnreachable } from "../../../src/errors.js";
import type { RunRecord } from "../../../src/model/run.js";
import {
  endProcess,
  findByPath,
  type LiveProcess,
  readProcess,
  signalProcess,
} from "../../support/live-processes.js";
import type { CuttableProxy } from "../../support/store/postgres-proxy.js";
import type { PostgresServer } from "../../support/store/postgres-server.js";
import { Bystanders } from "./bystanders.js";
import { openDatabase, type WorldDatabase } from "./database.js";
import { Receiver } from "./receiver.js";

const READY_MS = 60_000;
const ASK_MS = 60_000;

export interface WorldPrograms {
  /** `main.cjs` of the product under test. */
  readonly main: string;
  readonly bystander: string;
  /** Null: there is no compiler. */
  readonly slowDisk: string | null;
}

export interface GatewaySurroundings {
  /** Words before the command. */
  readonly around?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export type StoreKind = "SQLite" | "PostgreSQL";

/** A state directory on a disk of its own, a gateway, a receiver, and bystanders. */
export class World implements AsyncDisposable {
  readonly token = randomBytes(4).toString("hex");
  readonly directory: string;
  readonly home: string;
  readonly files: string;
  readonly store: StoreKind;
  readonly tier: string;
  readonly bystanders: Bystanders;
  readonly server: PostgresServer | null;
  readonly proxy: CuttableProxy | null;
  readonly receiver: Receiver;
  /** True if its disk can be filled without filling the machine's. */
  readonly ownDisk: boolean;
  readonly #programs: WorldPrograms;
  readonly #url: string | null;
  #gateway: ChildProcess | null = null;
  #client: GatewayClient | null = null;
  #agentSession: string | null = null;
  #starting: Promise<void> | null = null;
  instanceDirectory = "";
  /** A fault may end the gateway at any time. */
  gatewayMayEnd = false;
  /** Runs whose record says that processes may be left, and of which some were. */
  readonly unproven = new Set<string>();
  /** Gateways that ended although nothing ended them. */
  readonly crashes: string[] = [];

  private constructor(
    programs: WorldPrograms,
    receiver: Receiver,
    tier: string,
    database: WorldDatabase | null,
  ) {
    this.#programs = programs;
    this.receiver = receiver;
    this.tier = tier;
    this.store = database === null ? "SQLite" : "PostgreSQL";
    this.server = database?.server ?? null;
    this.proxy = database?.proxy ?? null;
    this.#url = database?.url ?? null;
    this.directory = mkdtempSync(join(tmpdir(), "hf-soak-"));
    this.ownDisk =
      spawnSync("mount", ["-t", "tmpfs", "-o", "size=160m,mode=0755", "tmpfs", this.directory]).status === 0;
    this.home = join(this.directory, "h");
    this.files = join(this.directory, "f");
    mkdirSync(this.home, { mode: 0o700 });
    mkdirSync(this.files);
    writeFileSync(
      join(this.directory, "config.toml"),
      `[channels.hook]\nkind = "webhook"\nurl = "${receiver.url}"\nsecrets = [{ env = "SOAK_SECRET" }]\nallow-http = true\nallow-networks = ["127.0.0.0/8"]\n`,
    );
    this.bystanders = new Bystanders(programs.bystander);
  }

  static async open(programs: WorldPrograms, store: StoreKind, tier: string): Promise<World> {
    const receiver = await Receiver.open();
    const world = new World(programs, receiver, tier, store === "SQLite" ? null : await openDatabase());
    await world.startGateway();
    const { stdout, status, stderr } = spawnSync(process.execPath, [programs.main, "shellenv"], {
      env: world.env,
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`shellenv: ${stdout}${stderr}`);
    world.bystanders.plant("an unrelated process");
    world.bystanders.plant("a process in the state directory", { cwd: world.home });
    return world;
  }

  get env(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      HOLDFAST_HOME: this.home,
      HOLDFAST_CONFIG: join(this.directory, "config.toml"),
      HOLDFAST_ANCHOR_WEAKEN: this.tier,
      SOAK_SECRET: `whsec_${Buffer.alloc(32, 7).toString("base64")}`,
      SLOW_DISK: join(this.directory, "slow-disk"),
      ...(this.#url === null ? {} : { HOLDFAST_DATABASE_URL: this.#url }),
    };
  }

  /** The native `holdfast`. */
  get command(): string {
    return join(this.home, "native/bin/holdfast");
  }

  get main(): string {
    return this.#programs.main;
  }

  get canSlowDisk(): boolean {
    return this.#programs.slowDisk !== null;
  }

  get client(): GatewayClient {
    if (this.#client === null) throw new Error("no gateway was started");
    return this.#client;
  }

  get gateway(): LiveProcess | null {
    return this.#gateway?.pid === undefined ? null : readProcess(this.#gateway.pid);
  }

  launcher(): LiveProcess | null {
    return findByPath(this.home).find(({ argv }) => argv[1] === "launch") ?? null;
  }

  /** Launchers, anchors, and all that was started below them. */
  processes(): LiveProcess[] {
    return findByPath(this.home).filter(({ pid }) => pid !== this.#gateway?.pid);
  }

  async startGateway(surroundings: GatewaySurroundings = {}): Promise<void> {
    this.#starting = this.#start(surroundings);
    try {
      await this.#starting;
    } finally {
      this.#starting = null;
    }
  }

  async #start({ around = [], env = {} }: GatewaySurroundings): Promise<void> {
    this.gatewayMayEnd = false;
    const program = [process.execPath, this.#programs.main, "gateway", "run", "--quiet"];
    const [command = "", ...words] = [...around, ...program];
    const log = openSync(join(this.directory, "gateway.log"), "a");
    const { slowDisk } = this.#programs;
    const child = spawn(command, words, {
      stdio: ["ignore", log, log],
      env: { ...this.env, ...(slowDisk === null ? {} : { LD_PRELOAD: slowDisk }), ...env },
    });
    closeSync(log);
    this.#gateway = child;
    const deadline = performance.now() + READY_MS;
    for (;;) {
      const status = await this.#status();
      if (status?.ready === true && status.pid === child.pid) break;
      if (child.exitCode !== null || child.signalCode !== null) {
        // A stop without a gateway started one in the background.
        if (await this.#endOthers()) return this.#start({ around, env });
        throw new Error(`the gateway ended with ${child.exitCode ?? child.signalCode}: ${this.log()}`);
      }
      if (performance.now() > deadline) throw new Error(`stuck: the gateway is not ready: ${this.log()}`);
      await sleep(10);
    }
    const [instanceId] = [readFileSync(join(this.home, "gateway-id"), "utf8").trim()];
    this.instanceDirectory = join(this.home, "instances", instanceId);
  }

  async #endOthers(): Promise<boolean> {
    const others = this.processes().filter(({ argv }) => argv.includes("gateway") && argv.includes("run"));
    for (const other of others) await endProcess(other);
    return others.length > 0;
  }

  async #status() {
    try {
      const token = readFileSync(join(this.home, "operator-token"), "utf8").trim();
      this.#client = createClient({ socketPath: gatewaySocketPath(this.home), token });
      return await this.#client.status();
    } catch {
      return null; // Not yet.
    }
  }

  /** The end of what gateways said. */
  log(): string {
    return readFileSync(join(this.directory, "gateway.log"), "utf8").slice(-2_000);
  }

  async killGateway(): Promise<void> {
    const child = this.#gateway;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    this.gatewayMayEnd = true;
    child.kill("SIGKILL");
    await ended;
  }

  /** Starts a gateway if the last one has ended, by itself or by a fault. */
  async ensureGateway(): Promise<void> {
    const child = this.#gateway;
    if (this.#starting !== null || child === null || (child.exitCode === null && child.signalCode === null))
      return;
    if (!this.gatewayMayEnd)
      this.crashes.push(`the gateway ended with ${child.exitCode ?? child.signalCode}: ${this.log()}`);
    await this.startGateway();
  }

  /** An answer of the gateway, for which a fault may have to pass first. */
  async ask<T>(question: (client: GatewayClient) => Promise<T>): Promise<T> {
    const deadline = performance.now() + ASK_MS;
    for (;;)
      try {
        return await question(this.client);
      } catch (error) {
        if (error instanceof GatewayError && error.code.endsWith("NOT_FOUND")) throw error;
        if (performance.now() > deadline) throw error;
        await sleep(50);
        if (error instanceof GatewayUnreachable) await this.ensureGateway();
      }
  }

  async record(runId: string): Promise<RunRecord | null> {
    try {
      return await this.ask((client) => client.getRun({ params: { runId } }));
    } catch (error) {
      if (error instanceof GatewayError && error.code === "RUN_NOT_FOUND") return null;
      throw error;
    }
  }

  async holdfast(
    ...words: readonly string[]
  ): Promise<{ readonly code: number | null; readonly said: string }> {
    const child = spawn(this.command, words, { stdio: ["ignore", "pipe", "pipe"], env: this.env });
    let said = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (text: Buffer) => (said += text.toString()));
    const [code] = (await once(child, "close")) as [number | null];
    return { code, said };
  }

  async agentSession(open: () => Promise<string>): Promise<string> {
    this.#agentSession ??= await open();
    return this.#agentSession;
  }

  /** The next turn opens another session. */
  async forgetAgentSession(): Promise<void> {
    const id = this.#agentSession;
    this.#agentSession = null;
    if (id !== null) await this.ask((client) => client.acpClose({ params: { id } })).catch(() => undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.killGateway();
    for (const one of this.processes()) signalProcess(one, "SIGKILL");
    await this.bystanders[Symbol.asyncDispose]();
    await this.receiver[Symbol.asyncDispose]();
    await this.proxy?.[Symbol.asyncDispose]();
    await this.server?.[Symbol.asyncDispose]();
    if (this.ownDisk) spawnSync("umount", ["--lazy", this.directory]);
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

export const builtMain = resolve("dist/bundle/main.cjs");
