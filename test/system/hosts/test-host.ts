import type { ChildProcess } from "node:child_process";
import { createClient, type GatewayClient } from "../../../src/api/client.js";
import type { RequestOf } from "../../../src/api/contract.js";
import { gatewaySocketPath } from "../../../src/home/state-directory.js";
import { readOperatorToken } from "../../../src/sessions/tokens.js";
import { GatewayRun } from "../../support/cli/recovery-fixture.js";
import {
  cliPath,
  cliWithDefaults,
  collectOutput,
  type CliProcess,
  type CliResult,
  type DefaultOverrides,
} from "../../support/cli/cli-fixture.js";
import { TestMachine, type TestMachineOptions } from "./test-machine.js";

/** A machine with a state directory and the URL of a database. */
export class TestHost extends TestMachine {
  readonly #url: string;
  #gateway: GatewayRun | null = null;

  private constructor(options: TestMachineOptions, url: string) {
    super(options);
    this.#url = url;
  }

  static async open(options: TestMachineOptions, url: string): Promise<TestHost> {
    const host = new TestHost(options, url);
    await host.boot();
    return host;
  }

  get env(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      HOLDFAST_HOME: this.home,
      HOLDFAST_DATABASE_URL: this.#url,
      // All hosts of the test share one cgroup file system.
      HOLDFAST_ANCHOR_WEAKEN: "cgroup",
    };
  }

  spawn(argv: readonly string[], stderr: "pipe" | "ignore"): ChildProcess {
    return this.enter(argv, stderr, this.env);
  }

  async holdfast(...args: readonly string[]): Promise<CliResult> {
    const { child, finished } = this.startWith({}, ...args);
    child.stdin.end();
    return finished;
  }

  /** The same with more in its environment, and its streams left to the test. */
  startWith(env: NodeJS.ProcessEnv, ...args: readonly string[]): CliProcess {
    return this.#start([cliPath, ...args], env);
  }

  /** Starts a gateway with these defaults, and waits until it is ready. */
  async gateway(numbers: DefaultOverrides = {}): Promise<GatewayRun> {
    const program = cliWithDefaults(numbers);
    const startWith: TestHost["startWith"] = (env, ...args) => this.#start([...program, ...args], env);
    this.#gateway = new GatewayRun({ startWith }, {});
    await this.#gateway.ready;
    return this.#gateway;
  }

  /** Kills only the gateway. */
  async killGateway(): Promise<void> {
    if (this.#gateway === null) throw new Error(`no gateway was started on ${this.name}`);
    const { pid } = await this.#gateway.waitForEvent("up");
    await this.run("kill", "-KILL", String(pid));
    await this.#gateway.finished;
  }

  /** A client in this process: Unix sockets work across network namespaces. */
  async client(): Promise<GatewayClient> {
    const token = (await readOperatorToken(this.files)) ?? "";
    return createClient({ socketPath: gatewaySocketPath(this.files), token });
  }

  /** Starts a run in the background; returns its id. */
  async script(script: string, body: Partial<RequestOf<"exec">["body"]> = {}): Promise<string> {
    const { exec } = await this.client();
    const argv = ["sh", "-c", script];
    const { run } = await exec({ body: { argv, background: true, graceMs: 200, ...body } });
    return run.runId;
  }

  override async powerOff(): Promise<void> {
    await super.powerOff();
    await this.#gateway?.finished;
  }

  #start(words: readonly string[], env: NodeJS.ProcessEnv): CliProcess {
    const child = this.enter([process.execPath, ...words], "pipe", { ...this.env, ...env });
    return collectOutput(child as CliProcess["child"]);
  }
}
