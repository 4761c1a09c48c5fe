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

/** The native `holdfast` of a state directory, after `makeNativeCommand`. */
export const nativePath = (home: string): string => join(home, "native/bin/holdfast");

export type DefaultOverrides = Partial<Record<keyof typeof defaults, number>>;

/** The arguments of `node` that start the command line with other default numbers. */
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
  /** All of stdout and stderr as bytes. */
  readonly raw: Promise<readonly [Buffer, Buffer]>;
  readonly finished: Promise<CliResult>;
}

/**
 * A state directory, and a bystander process. When it is disposed, the bystander must be alive, and no process of the
 * directory may be left.
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

  /** Foreground commands run in-process, which is faster, unless a test is about the gateway. */
  get env(): NodeJS.ProcessEnv {
    return {
      ...process.env,
      HOLDFAST_HOME: this.home,
      HOLDFAST_IN_PROCESS: "1",
      NO_COLOR: undefined,
      FORCE_COLOR: undefined,
    };
  }

  /** Starts `holdfast`; the test uses its streams. */
  start(...args: readonly string[]): CliProcess {
    return this.startWith({}, ...args);
  }

  /** The program and its first words. */
  protected get program(): readonly [string, ...string[]] {
    return [process.execPath, cliPath];
  }

  startWith(env: NodeJS.ProcessEnv, ...args: readonly string[]): CliProcess {
    return this.startProgram(env, [...this.program, ...args]);
  }

  startWithDefaults(
    numbers: DefaultOverrides,
    env: NodeJS.ProcessEnv,
    ...args: readonly string[]
  ): CliProcess {
    return this.startProgram(env, [process.execPath, ...cliWithDefaults(numbers), ...args]);
  }

  /** Every `holdfast` process is started here. */
  protected startProgram(env: NodeJS.ProcessEnv, [program = "", ...words]: readonly string[]): CliProcess {
    return collectOutput(
      spawn(program, words, { env: { ...this.env, ...env }, stdio: ["pipe", "pipe", "pipe"] }),
    );
  }

  /** Runs `holdfast` with an empty stdin. */
  async holdfast(...args: readonly string[]): Promise<CliResult> {
    const { child, finished } = this.start(...args);
    child.stdin.end();
    return finished;
  }

  /** Runs a shell script in which `holdfast` is a function. */
  async shell(script: string): Promise<CliResult> {
    const child = spawn(
      "bash",
      ["-c", `holdfast() { ${this.program.map((word) => `"${word}"`).join(" ")} "$@"; }\n${script}`],
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

/** Collects the output and the exit status of a command with pipes. */
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

/** Waits until the stream has this text. */
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
