import type { ChildProcess } from "node:child_process";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { defaults } from "../../src/defaults.js";
import { createClient, type GatewayClient } from "../../src/gateway/client.js";
import type { AskedOf } from "../../src/gateway/contract/contract.js";
import { gatewaySocket } from "../../src/gateway/server/listen.js";
import { readOperatorToken } from "../../src/gateway/server/requester.js";
import { Gateway } from "../cli/field.js";
import { going, main, type Finished, type Going } from "../cli/stage.js";
import { Machine, type MachineOptions } from "./machine.js";

const hurried = fileURLToPath(new URL("children/hurried.mjs", import.meta.url));

/** A machine with Holdfast on it, its state directory, and the address of a database. */
export class Host extends Machine {
  readonly #url: string;
  #gateway: Gateway | null = null;

  private constructor(options: MachineOptions, url: string) {
    super(options);
    this.#url = url;
  }

  static async open(options: MachineOptions, url: string): Promise<Host> {
    const host = new Host(options, url);
    await host.boot();
    return host;
  }

  get env(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      HOLDFAST_HOME: this.home,
      HOLDFAST_DATABASE_URL: this.#url,
      // The file system of cgroups is one for all hosts here.
      HOLDFAST_ANCHOR_WEAKEN: "cgroup",
    };
  }

  spawn(argv: readonly string[], stderr: "pipe" | "ignore"): ChildProcess {
    return this.enter(argv, stderr, this.env);
  }

  async holdfast(...args: readonly string[]): Promise<Finished> {
    const { child, finished } = this.startWith({}, ...args);
    child.stdin.end();
    return finished;
  }

  /** The same with more in its environment, and its streams left to the test. */
  startWith(env: NodeJS.ProcessEnv, ...args: readonly string[]): Going {
    return this.#start([main, ...args], env);
  }

  /** Up and through its first look. With some numbers of its own, where a test is about time. */
  async gateway(numbers: Partial<Record<keyof typeof defaults, number>> = {}): Promise<Gateway> {
    const program = [hurried, resolve("dist"), JSON.stringify(numbers)];
    const startWith: Host["startWith"] = (env, ...args) => this.#start([...program, ...args], env);
    this.#gateway = new Gateway({ startWith }, {});
    await this.#gateway.settled;
    return this.#gateway;
  }

  /** The gateway, and nobody else. */
  async killGateway(): Promise<void> {
    if (this.#gateway === null) throw new Error(`no gateway was started on ${this.name}`);
    const { pid } = await this.#gateway.hears("up");
    await this.do("kill", "-KILL", String(pid));
    await this.#gateway.finished;
  }

  /** From here: a socket's path reaches into every network. */
  async client(): Promise<GatewayClient> {
    const token = (await readOperatorToken(this.files)) ?? "";
    return createClient({ socketPath: gatewaySocket(this.files), token });
  }

  /** A run in the background; its id. */
  async script(script: string, body: Partial<AskedOf<"exec">["body"]> = {}): Promise<string> {
    const { exec } = await this.client();
    const argv = ["sh", "-c", script];
    const { run } = await exec({ body: { argv, background: true, graceMs: 200, ...body } });
    return run.runId;
  }

  override async cut(): Promise<void> {
    await super.cut();
    await this.#gateway?.finished;
  }

  #start(words: readonly string[], env: NodeJS.ProcessEnv): Going {
    const child = this.enter([process.execPath, ...words], "pipe", { ...this.env, ...env });
    return going(child as Going["child"]);
  }
}
