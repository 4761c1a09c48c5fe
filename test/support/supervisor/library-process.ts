import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type { FirstStop } from "../../../src/anchor/host.js";
import type { Survivor } from "../../../src/model/process.js";
import type { RunEvent } from "../../../src/model/run-event.js";
import type { RunRecord, RunStateName } from "../../../src/model/run.js";
import type { CommandInput, SpawnOptions } from "../../../src/supervisor/api.js";
import type { CancelOptions } from "../../../src/supervisor/run-options.js";
import { libraryPath, type Sandbox } from "../sandbox.js";
import { waitFor } from "../wait-for.js";

interface Replies {
  opened: object;
  started: { readonly runId: string; readonly record: RunRecord };
  output: { readonly stream: string; readonly text: string };
  recovered: { readonly runIds: readonly string[] };
  looked: {
    readonly state: RunStateName;
    readonly survivors: readonly Survivor[];
    readonly firstStop: FirstStop | null;
    readonly record: RunRecord;
  };
  ended: { readonly record: RunRecord };
  listed: { readonly runs: readonly RunRecord[]; readonly events: readonly RunEvent[] };
  /** After `ended`: all of the run's output has been passed on. */
  silent: object;
  closed: object;
  problem: { readonly message: string };
  failed: { readonly message: string };
}

type Reply = { [Kind in keyof Replies]: { readonly say: Kind } & Replies[Kind] }[keyof Replies];

const script = fileURLToPath(new URL("children/library-process.mjs", import.meta.url));
const instanceId = "tree";

/** A process of its own that uses the library, and may be killed (see `children/supervise.mjs`). */
export class LibraryProcess implements AsyncDisposable {
  readonly #child: ChildProcess & { readonly stdin: Writable };
  readonly #replies: Reply[] = [];
  readonly #exited: Promise<unknown>;
  #gone = false;
  #stderr = "";
  /** All of the run's output so far. */
  output = "";

  private constructor(sandbox: Sandbox) {
    const child = sandbox.spawn([process.execPath, script, libraryPath], "pipe");
    this.#child = child as ChildProcess & { readonly stdin: Writable };
    this.#child.stdin.on("error", () => {});
    this.#exited = once(child, "close").then(() => (this.#gone = true));
    child.stderr?.on("data", (data: Buffer) => (this.#stderr += data.toString()));
    createInterface({ input: child.stdout as Readable }).on("line", (line) => {
      const answer = JSON.parse(line) as Reply;
      if (answer.say === "output") this.output += answer.text;
      else this.#replies.push(answer);
    });
  }

  /** Opened on the seat's state directory. */
  static async open(sandbox: Sandbox): Promise<LibraryProcess> {
    const libraryProcess = new LibraryProcess(sandbox);
    try {
      libraryProcess.order("open", { home: sandbox.home, instanceId });
      await libraryProcess.receive("opened");
      return libraryProcess;
    } catch (error) {
      await libraryProcess.kill();
      throw error;
    }
  }

  order(order: string, given: object = {}): void {
    this.#child.stdin.write(`${JSON.stringify({ order, ...given })}\n`);
  }

  /** The next answer of this kind. Complaints of the library are never an answer. */
  async receive<Kind extends keyof Replies>(say: Kind, withinMs = 15_000): Promise<Replies[Kind]> {
    const answer = await waitFor(
      `the supervising process says ${say}`,
      () => {
        const failed = this.#replies.find((one) => one.say === "failed");
        if (failed?.say === "failed" && say !== "failed") throw new Error(failed.message);
        const at = this.#replies.findIndex((one) => one.say === say);
        if (at >= 0) return this.#replies.splice(at, 1)[0];
        if (this.#gone) throw new Error(`it ended instead of saying ${say}: ${this.#stderr}`);
        return null;
      },
      withinMs,
    );
    return answer as unknown as Replies[Kind];
  }

  async spawn(input: CommandInput, options: SpawnOptions): Promise<Replies["started"]> {
    this.order("spawn", { input, options });
    return this.receive("started");
  }

  cancel(options: CancelOptions): void {
    this.order("cancel", { options });
  }

  write(data: string): void {
    this.order("write", { data });
  }

  async waitForOutput(text: string | RegExp): Promise<void> {
    await waitFor(`the run prints ${String(text)}; so far ${JSON.stringify(this.output.slice(-2000))}`, () =>
      typeof text === "string" ? this.output.includes(text) : text.test(this.output),
    );
  }

  async inspect(): Promise<Replies["looked"]> {
    this.order("look");
    return this.receive("looked");
  }

  async list(): Promise<Replies["listed"]> {
    this.order("list");
    return this.receive("listed");
  }

  /** What the library complained of, so far. */
  get problems(): string[] {
    return this.#replies.flatMap((one) => (one.say === "problem" ? [one.message] : []));
  }

  /** Closes the library; then the process must end by itself, with nothing to say. */
  async close(): Promise<void> {
    this.order("close");
    await this.receive("closed");
    this.#child.stdin.end();
    await this.#exited;
    expect({ code: this.#child.exitCode, stderr: this.#stderr }).toEqual({ code: 0, stderr: "" });
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#gone) await this.kill();
  }
}
