import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import type { RunRecord } from "../../../src/model/run.js";
import type { CommandInput, ReconcileScope, SpawnOptions } from "../../../src/supervisor/api.js";
import type { CancelOptions } from "../../../src/supervisor/run-options.js";
import type { Decided } from "../../../src/supervisor/decision.js";
import { readProcess } from "../live-processes.js";
import type { Sandbox } from "../sandbox.js";
import { waitFor } from "../wait-for.js";

/** Where a keeper can be stopped (see `children/keeper.mjs`), in the order in which it gets there. */
export const SUPERVISOR_STEPS = {
  spawn: ["inserted", "asked", "welcomed", "committed", "gone", "heard", "running"],
  terminate: ["stop-asking", "stop-asked", "stop-heard", "leader-heard"],
  finalize: ["end-heard", "end-saving", "end-saved"],
  adopt: ["adopt-saving", "adopt-saved", "adopt-asked", "adopt-heard"],
  steal: ["looking", "stealing", "stolen", "attached", "reaping", "reaped"],
} as const;

export type SupervisorStep = (typeof SUPERVISOR_STEPS)[keyof typeof SUPERVISOR_STEPS][number];

interface Replies {
  opened: object;
  armed: object;
  /** It has stopped itself here. */
  at: { readonly step: SupervisorStep };
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

type Reply = { [Kind in keyof Replies]: { readonly say: Kind } & Replies[Kind] }[keyof Replies];

const script = fileURLToPath(new URL("children/supervisor-process.mjs", import.meta.url));

/** Where a keeper can be started. */
export type SpawnPlace = Pick<Sandbox, "home" | "spawn">;

export interface SupervisorProcessOptions {
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
export class SupervisorProcess implements AsyncDisposable {
  readonly instanceId: string;
  readonly #child: ChildProcess & { readonly stdin: Writable };
  readonly #replies: Reply[] = [];
  readonly #exited: Promise<unknown>;
  #gone = false;
  #stderr = "";
  #output = "";

  private constructor(sandbox: SpawnPlace, instanceId: string, under: readonly string[]) {
    this.instanceId = instanceId;
    const child = sandbox.spawn([...under, process.execPath, script, resolve("dist")], "pipe");
    this.#child = child as ChildProcess & { readonly stdin: Writable };
    this.#child.stdin.on("error", () => {});
    this.#exited = once(child, "close").then(() => (this.#gone = true));
    child.stderr?.on("data", (data: Buffer) => (this.#stderr += data.toString()));
    createInterface({ input: child.stdout as Readable }).on("line", (line) => {
      const answer = JSON.parse(line) as Reply;
      if (answer.say === "output") this.#output += answer.text;
      else this.#replies.push(answer);
    });
  }

  static async open(
    sandbox: SpawnPlace,
    instanceId: string,
    options: SupervisorProcessOptions = {},
  ): Promise<SupervisorProcess> {
    const { settleMs, home = sandbox.home, url = null, under = [] } = options;
    const supervisorProcess = new SupervisorProcess(sandbox, instanceId, under);
    try {
      supervisorProcess.order("open", { home, instanceId, url, settle: settleMs ?? null });
      await supervisorProcess.receive("opened");
      return supervisorProcess;
    } catch (error) {
      await supervisorProcess.kill();
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
  async receive<Kind extends keyof Replies>(say: Kind, withinMs = 20_000): Promise<Replies[Kind]> {
    const answer = await waitFor(
      `the keeper says ${say}`,
      () => {
        const at = this.#replies.findIndex((one) => one.say === say);
        if (at >= 0) return this.#replies.splice(at, 1)[0];
        const failed = this.#replies.find((one) => one.say === "failed");
        if (failed?.say === "failed") throw new Error(`${failed.order}: ${failed.message}`);
        if (this.#gone) throw new Error(`it ended instead of saying ${say}: ${this.#stderr}`);
        return null;
      },
      withinMs,
    );
    return answer as unknown as Replies[Kind];
  }

  /** Everything of this kind that was said and not heard yet. */
  received<Kind extends keyof Replies>(say: Kind): readonly Replies[Kind][] {
    return this.#replies.filter((one) => one.say === say) as unknown as readonly Replies[Kind][];
  }

  /** When that many of its runs have got there. */
  async pauseAt(step: SupervisorStep, runs = 1): Promise<void> {
    this.order("stopAt", { step, runs });
    await this.receive("armed");
  }

  /** It has got there, and stopped. */
  async waitUntilPaused(): Promise<SupervisorStep> {
    const { step } = await this.receive("at");
    await waitFor("the keeper has stopped", () => readProcess(this.pid)?.state === "T");
    return step;
  }

  /** It was stopped, by itself or by us. */
  resume(): void {
    this.#child.kill("SIGCONT");
  }

  async suspend(): Promise<void> {
    this.#child.kill("SIGSTOP");
    await waitFor("the keeper has stopped", () => readProcess(this.pid)?.state === "T");
  }

  async spawn(input: CommandInput, options: SpawnOptions = {}): Promise<RunRecord> {
    this.order("spawn", { input, options });
    return (await this.receive("spawned")).record;
  }

  async reconcile(scope: ReconcileScope = {}): Promise<Replies["reconciled"]> {
    this.order("reconcile", { scope });
    return this.receive("reconciled");
  }

  /** A process becomes a service of its own. */
  async adoptProcess(pid: number): Promise<Replies["left"]> {
    this.order("adoptProcess", { pid });
    return this.receive("left");
  }

  adopt(runId: string): void {
    this.order("adopt", { runId });
  }

  cancel(runId: string, options: CancelOptions = {}): void {
    this.order("cancel", { runId, options });
  }

  async write(runId: string, data: string): Promise<void> {
    this.order("write", { runId, data });
    await this.receive("written");
  }

  async waitForOutput(text: string): Promise<void> {
    await waitFor(`a run prints ${JSON.stringify(text)}; so far ${JSON.stringify(this.#output)}`, () =>
      this.#output.includes(text),
    );
  }

  async close(leaveRuns = false): Promise<void> {
    this.order("close", { leaveRuns });
    await this.receive("closed");
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
