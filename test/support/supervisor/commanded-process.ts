import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import type { Sandbox } from "../sandbox.js";
import { waitFor } from "../wait-for.js";

/** Where a commanded process can be started. */
export type SpawnPlace = Pick<Sandbox, "home" | "spawn">;

/** The answers that every commanded process gives, by kind. */
interface CommonReplies {
  readonly output: { readonly text: string };
  readonly failed: { readonly order?: string; readonly message: string };
}

/** A child that carries out orders: each line on its stdin is an order, each line on its stdout an answer. */
export abstract class CommandedProcess<Replies extends CommonReplies> implements AsyncDisposable {
  readonly #child: ChildProcess & { readonly stdin: Writable };
  readonly #replies: { readonly say: keyof Replies }[] = [];
  readonly #exited: Promise<unknown>;
  #gone = false;
  #stderr = "";
  #output = "";

  protected constructor(place: SpawnPlace, argv: readonly string[]) {
    const child = place.spawn(argv, "pipe");
    this.#child = child as ChildProcess & { readonly stdin: Writable };
    this.#child.stdin.on("error", () => {});
    this.#exited = once(child, "close").then(() => (this.#gone = true));
    child.stderr?.on("data", (data: Buffer) => (this.#stderr += data.toString()));
    createInterface({ input: child.stdout as Readable }).on("line", (line) => {
      const answer = JSON.parse(line) as { readonly say: keyof Replies; readonly text?: string };
      if (answer.say === "output") this.#output += answer.text;
      else this.#replies.push(answer);
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** The output of its runs so far. */
  get output(): string {
    return this.#output;
  }

  order(order: string, given: object = {}): void {
    this.#child.stdin.write(`${JSON.stringify({ order, ...given })}\n`);
  }

  /** The next answer of this kind. Throws if an order failed, unless failures are awaited. */
  async receive<Kind extends keyof Replies & string>(say: Kind, withinMs = 20_000): Promise<Replies[Kind]> {
    const answer = await waitFor(
      `the child answers ${say}`,
      () => {
        const at = this.#replies.findIndex((reply) => reply.say === say);
        if (at >= 0) return this.#replies.splice(at, 1)[0];
        const [failed] = this.received("failed");
        if (failed !== undefined) throw new Error(`${failed.order ?? "failed"}: ${failed.message}`);
        if (this.#gone) throw new Error(`it ended instead of answering ${say}: ${this.#stderr}`);
        return null;
      },
      withinMs,
    );
    return answer as unknown as Replies[Kind];
  }

  /** All answers of this kind that were not received yet. */
  received<Kind extends keyof Replies>(say: Kind): readonly Replies[Kind][] {
    return this.#replies.filter((reply) => reply.say === say) as unknown as readonly Replies[Kind][];
  }

  async waitForOutput(text: string | RegExp): Promise<void> {
    const shown = (): string => JSON.stringify(this.#output.slice(-2_000));
    await waitFor(`a run prints ${String(text)}`, () =>
      typeof text === "string" ? this.#output.includes(text) : text.test(this.#output),
    ).catch((error: unknown) => {
      throw new Error(`its output is ${shown()}`, { cause: error });
    });
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** Also works while it is stopped. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  /** Resolves with this process when its first answer arrives; kills it if that fails. */
  protected async orKill(answer: Promise<unknown>): Promise<this> {
    try {
      await answer;
      return this;
    } catch (error) {
      await this.kill();
      throw error;
    }
  }

  /** Closes its stdin and waits until it has ended. */
  protected async finish(): Promise<{ readonly code: number | null; readonly stderr: string }> {
    this.#child.stdin.end();
    await this.#exited;
    return { code: this.#child.exitCode, stderr: this.#stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#gone) await this.kill();
  }
}
