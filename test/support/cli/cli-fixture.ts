import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Readable, Writable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { defaults } from "../../../src/defaults.js";
import { findByPath } from "../live-processes.js";
import { removeStateDirectory } from "../temporary-directory.js";
import { waitFor } from "../wait-for.js";

export const cliPath = resolve("dist/cli/main.js");

export type DefaultOverrides = Partial<Record<keyof typeof defaults, number>>;

/** The words after `node` that start the command line with other default numbers, for a test about time. */
export function cliWithDefaults(numbers: DefaultOverrides): string[] {
  const script = fileURLToPath(new URL("children/override-defaults.mjs", import.meta.url));
  return [script, resolve("dist"), JSON.stringify(numbers)];
}

export interface CliResult {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CliProcess {
  readonly child: ChildProcess & {
    readonly stdin: Writable;
    readonly stdout: Readable;
    readonly stderr: Readable;
  };
  /** All of stdout and stderr, for where they are no text. */
  readonly raw: Promise<readonly [Buffer, Buffer]>;
  readonly finished: Promise<CliResult>;
}

/**
 * A state directory of its own, and a bystander that has nothing to do with it. At the end the bystander must live,
 * and nothing else that belongs to the directory.
 */
export class CliFixture implements AsyncDisposable {
  readonly home: string;
  readonly #bystander: ChildProcess;

  constructor(home: string) {
    this.home = home;
    this.#bystander = spawn("sleep", ["3600"], { stdio: "ignore" });
  }

  static async open(): Promise<CliFixture> {
    return new CliFixture(await mkdtemp(join(tmpdir(), "hf-")));
  }

  /** Foreground commands supervise themselves, which is quick, unless a test is about the gateway. */
  get env(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      HOLDFAST_HOME: this.home,
      HOLDFAST_IN_PROCESS: "1",
      NO_COLOR: undefined,
      FORCE_COLOR: undefined,
    };
  }

  /** Start `holdfast` and leave its streams to the test. */
  start(...args: readonly string[]): CliProcess {
    return this.startWith({}, ...args);
  }

  /** The same with more in its environment. */
  startWith(env: NodeJS.ProcessEnv, ...args: readonly string[]): CliProcess {
    return this.startNode(env, cliPath, ...args);
  }

  /** The same with other default numbers. */
  startWithDefaults(
    numbers: DefaultOverrides,
    env: NodeJS.ProcessEnv,
    ...args: readonly string[]
  ): CliProcess {
    return this.startNode(env, ...cliWithDefaults(numbers), ...args);
  }

  protected startNode(env: NodeJS.ProcessEnv, ...words: readonly string[]): CliProcess {
    return collectOutput(
      spawn(process.execPath, words, { env: { ...this.env, ...env }, stdio: ["pipe", "pipe", "pipe"] }),
    );
  }

  /** Run `holdfast` with nothing on its stdin. */
  async holdfast(...args: readonly string[]): Promise<CliResult> {
    const { child, finished } = this.start(...args);
    child.stdin.end();
    return finished;
  }

  /** Run a shell script in which `holdfast` is the command. */
  async shell(script: string): Promise<CliResult> {
    const child = spawn(
      "bash",
      ["-c", `holdfast() { "${process.execPath}" "${cliPath}" "$@"; }\n${script}`],
      {
        env: this.env,
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    const [stdout, stderr, [code, signal]] = await Promise.all([
      buffer(child.stdout),
      buffer(child.stderr),
      once(child, "close"),
    ]);
    return { code, signal, stdout: stdout.toString(), stderr: stderr.toString() };
  }

  /** Processes that name the directory in their environment or command line. */
  async processes(): Promise<string[]> {
    return findByPath(this.home).map(({ pid, argv }) => `${pid} ${argv.join(" ")}`);
  }

  async expectNoProcesses(withinMs = 3_000): Promise<void> {
    let left: readonly string[] = [];
    const areGone = async (): Promise<boolean> => {
      left = await this.processes();
      return left.length === 0;
    };
    await waitFor(areGone, withinMs).catch(() => expect(left).toEqual([]));
  }

  protected async cleanUp(): Promise<void> {
    await removeStateDirectory(this.home);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.expectNoProcesses();
      expect(this.#bystander.exitCode ?? this.#bystander.signalCode, "the bystander").toBeNull();
    } finally {
      this.#bystander.kill("SIGKILL");
      await once(this.#bystander, "exit").catch(() => {});
      await this.cleanUp();
    }
  }
}

/** What becomes of a command that was started with pipes. */
export function collectOutput(child: CliProcess["child"]): CliProcess {
  child.stdin.on("error", () => {});
  const raw = Promise.all([buffer(child.stdout), buffer(child.stderr)]);
  const finished = Promise.all([raw, once(child, "close")]).then(([[stdout, stderr], [code, signal]]) => ({
    code: code as number | null,
    signal: signal as NodeJS.Signals | null,
    stdout: stdout.toString(),
    stderr: stderr.toString(),
  }));
  return { child, raw, finished };
}

/** Until the command's output holds this text. */
export async function waitForText(stream: Readable, text: string): Promise<void> {
  let seen = "";
  await new Promise<void>((done, fail) => {
    const onData = (data: Buffer): void => {
      seen += data.toString();
      if (!seen.includes(text)) return;
      stream.off("data", onData);
      done();
    };
    stream.on("data", onData);
    stream.once("end", () =>
      fail(new Error(`ended without ${JSON.stringify(text)}; it wrote ${JSON.stringify(seen)}`)),
    );
  });
}
