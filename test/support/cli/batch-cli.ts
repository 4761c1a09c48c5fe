import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll } from "vitest";
import { BackgroundGateway } from "./background-gateway.js";
import type { CliResult, DefaultOverrides } from "./cli-fixture.js";

const child = fileURLToPath(new URL("children/batch-cli.mjs", import.meta.url));
const END_MARK = "\n<<< end of output >>>\n";

/** One process that executes `holdfast` command lines one after another. None of them may read stdin. */
export class BatchCli implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<null>;
  #previous: Promise<unknown> = Promise.resolve();

  /** `numbers`: instead of the default ones. */
  constructor(env: NodeJS.ProcessEnv, numbers: DefaultOverrides = {}) {
    this.#child = fork(child, [JSON.stringify(numbers)], { env, stdio: ["ignore", "pipe", "pipe", "ipc"] });
    this.#ended = once(this.#child, "exit").then(() => null);
  }

  holdfast(...args: readonly string[]): Promise<CliResult> {
    return this.holdfastWith({}, ...args);
  }

  /** The variables are those of this command only. Concurrent calls wait for each other. */
  async holdfastWith(env: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<CliResult> {
    const result = this.#previous.then(() => this.#execute(env, args));
    this.#previous = result.catch(() => undefined);
    return result;
  }

  async #execute(env: Readonly<Record<string, string>>, args: readonly string[]): Promise<CliResult> {
    const { stdout: out, stderr: err } = this.#child;
    if (out === null || err === null) throw new Error("the child has no output streams");
    const output = Promise.all([readToMark(out), readToMark(err), once(this.#child, "message")]);
    this.#child.send({ args, env, mark: END_MARK });
    const first = await Promise.race([output, this.#ended]);
    if (first === null) throw new Error(`${args.join(" ")} ended the program`);
    const [stdout, stderr, [code]] = first;
    return { code: code as number, signal: null, stdout, stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill();
    await this.#ended;
  }
}

/** One gateway and one BatchCli for all tests of a file. */
export function gatewayAndCliForFile(): {
  readonly gatewayFixture: BackgroundGateway;
  readonly batchCli: BatchCli;
} {
  const fixture = {} as { gatewayFixture: BackgroundGateway; batchCli: BatchCli };
  beforeAll(async () => {
    fixture.gatewayFixture = await BackgroundGateway.started();
    fixture.batchCli = new BatchCli(fixture.gatewayFixture.env);
  }, 60_000);
  afterAll(async () => {
    await fixture.batchCli[Symbol.asyncDispose]();
    await fixture.gatewayFixture[Symbol.asyncDispose]();
  });
  return fixture;
}

function readToMark(stream: Readable): Promise<string> {
  let text = "";
  return new Promise((resolve) => {
    const onData = (data: Buffer): void => {
      text += data.toString();
      if (!text.endsWith(END_MARK)) return;
      stream.off("data", onData);
      resolve(text.slice(0, -END_MARK.length));
    };
    stream.on("data", onData);
  });
}
