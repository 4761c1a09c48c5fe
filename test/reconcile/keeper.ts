import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { RunRecord } from "../../src/store/run-record.js";
import type { CancelOptions, CommandInput, ReconcileScope, SpawnOptions } from "../../src/supervisor/api.js";
import type { Decided } from "../../src/supervisor/reconcile/reconcile.js";
import { look, until } from "../tree/living.js";
import type { Seat } from "../tree/seat.js";
import type { StepName } from "./steps.js";

interface Answers {
  opened: object;
  armed: object;
  /** It has stopped itself here. */
  at: { readonly step: StepName };
  spawned: { readonly runId: string; readonly record: RunRecord };
  output: { readonly runId: string; readonly text: string };
  reconciled: { readonly decisions: readonly Decided[]; readonly runIds: readonly string[] };
  adopted: object;
  left: { readonly record: RunRecord; readonly warnings: readonly string[] };
  written: object;
  resized: object;
  ended: { readonly runId: string; readonly record: RunRecord };
  /** `wait()` has rejected. */
  rejected: { readonly runId: string; readonly code: string; readonly message: string };
  closed: object;
  problem: {
    readonly runId: string | null;
    readonly message: string;
    readonly code: string | null;
    readonly heldBy: string | null;
  };
  failed: { readonly order: string; readonly code: string | null; readonly message: string };
}
type Answer = { [Kind in keyof Answers]: { readonly say: Kind } & Answers[Kind] }[keyof Answers];

const script = fileURLToPath(new URL("children/keeper.mjs", import.meta.url));

/** Where a keeper can be started. */
export type Place = Pick<Seat, "home" | "spawn">;

export interface KeeperOptions {
  /** Instead of the default time for what outlived its leader. */
  readonly settleMs?: number | null;
  /** Instead of the seat's. */
  readonly home?: string;
  /** Of a database, instead of the state directory's own file. */
  readonly url?: string | null;
  /** Words of a command line that starts the keeper, such as `unshare`. */
  readonly under?: readonly string[];
}

/** A supervisor in a process of its own, which can be stopped at a step and killed there. */
export class Keeper implements AsyncDisposable {
  readonly instanceId: string;
  readonly #child: ChildProcess & { readonly stdin: Writable };
  readonly #answers: Answer[] = [];
  readonly #exited: Promise<unknown>;
  #gone = false;
  #stderr = "";
  #output = "";

  private constructor(seat: Place, instanceId: string, under: readonly string[]) {
    this.instanceId = instanceId;
    const child = seat.spawn([...under, process.execPath, script, resolve("dist")], "pipe");
    this.#child = child as ChildProcess & { readonly stdin: Writable };
    this.#child.stdin.on("error", () => {});
    this.#exited = once(child, "close").then(() => (this.#gone = true));
    child.stderr?.on("data", (data: Buffer) => (this.#stderr += data.toString()));
    createInterface({ input: child.stdout as Readable }).on("line", (line) => {
      const answer = JSON.parse(line) as Answer;
      if (answer.say === "output") this.#output += answer.text;
      else this.#answers.push(answer);
    });
  }

  static async open(seat: Place, instanceId: string, options: KeeperOptions = {}): Promise<Keeper> {
    const { settleMs, home = seat.home, url = null, under = [] } = options;
    const keeper = new Keeper(seat, instanceId, under);
    try {
      keeper.order("open", { home, instanceId, url, settle: settleMs ?? null });
      await keeper.hear("opened");
      return keeper;
    } catch (error) {
      await keeper.kill();
      throw error;
    }
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** What its runs have printed. */
  get output(): string {
    return this.#output;
  }

  order(order: string, given: object = {}): void {
    this.#child.stdin.write(`${JSON.stringify({ order, ...given })}\n`);
  }

  /** The next answer of this kind; a failed order is one only to who asks for failures. */
  async hear<Kind extends keyof Answers>(say: Kind, withinMs = 20_000): Promise<Answers[Kind]> {
    const answer = await until(
      `the keeper says ${say}`,
      () => {
        const at = this.#answers.findIndex((one) => one.say === say);
        if (at >= 0) return this.#answers.splice(at, 1)[0];
        const failed = this.#answers.find((one) => one.say === "failed");
        if (failed?.say === "failed") throw new Error(`${failed.order}: ${failed.message}`);
        if (this.#gone) throw new Error(`it ended instead of saying ${say}: ${this.#stderr}`);
        return null;
      },
      withinMs,
    );
    return answer as unknown as Answers[Kind];
  }

  /** Everything of this kind that was said and not heard yet. */
  said<Kind extends keyof Answers>(say: Kind): readonly Answers[Kind][] {
    return this.#answers.filter((one) => one.say === say) as unknown as readonly Answers[Kind][];
  }

  /** When that many of its runs have got there. */
  async stopAt(step: StepName, runs = 1): Promise<void> {
    this.order("stopAt", { step, runs });
    await this.hear("armed");
  }

  /** It has got there, and stopped. */
  async arrived(): Promise<StepName> {
    const { step } = await this.hear("at");
    await until("the keeper has stopped", () => look(this.pid)?.state === "T");
    return step;
  }

  /** It was stopped, by itself or by us. */
  goOn(): void {
    this.#child.kill("SIGCONT");
  }

  async stop(): Promise<void> {
    this.#child.kill("SIGSTOP");
    await until("the keeper has stopped", () => look(this.pid)?.state === "T");
  }

  async spawn(input: CommandInput, options: SpawnOptions = {}): Promise<RunRecord> {
    this.order("spawn", { input, options });
    return (await this.hear("spawned")).record;
  }

  async reconcile(scope: ReconcileScope = {}): Promise<Answers["reconciled"]> {
    this.order("reconcile", { scope });
    return this.hear("reconciled");
  }

  /** A process becomes a service of its own. */
  async adoptProcess(pid: number): Promise<Answers["left"]> {
    this.order("adoptProcess", { pid });
    return this.hear("left");
  }

  adopt(runId: string): void {
    this.order("adopt", { runId });
  }

  cancel(runId: string, options: CancelOptions = {}): void {
    this.order("cancel", { runId, options });
  }

  async write(runId: string, data: string): Promise<void> {
    this.order("write", { runId, data });
    await this.hear("written");
  }

  async printed(text: string): Promise<void> {
    await until(`a run prints ${JSON.stringify(text)}; so far ${JSON.stringify(this.#output)}`, () =>
      this.#output.includes(text),
    );
  }

  async close(leaveRuns = false): Promise<void> {
    this.order("close", { leaveRuns });
    await this.hear("closed");
    this.#child.stdin.end();
    await this.#exited;
  }

  /** Stopped or not. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#gone) await this.kill();
  }
}
