import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { RunRecord } from "../../../src/model/run.js";
import type { CommandInput, ReconcileScope, SpawnOptions } from "../../../src/supervisor/api.js";
import type { CancelOptions } from "../../../src/supervisor/check-options.js";
import type { Decided } from "../../../src/supervisor/reconcile-decision.js";
import { readProcess } from "../live-processes.js";
import { waitFor } from "../wait-for.js";
import { CommandedProcess, type SpawnPlace } from "./commanded-process.js";

/** The steps at which a supervisor process can stop (see `children/supervisor-process.mjs`), in order. */
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

const script = fileURLToPath(new URL("children/supervisor-process.mjs", import.meta.url));

export interface SupervisorProcessOptions {
  /** Instead of the default time for processes that outlive the leader. */
  readonly settleMs?: number | null;
  /** Instead of the sandbox's. */
  readonly home?: string;
  /** A database, instead of the state directory's SQLite file. */
  readonly url?: string | null;
  /** A command that starts the supervisor process, such as `unshare`. */
  readonly under?: readonly string[];
}

/** A supervisor in a process of its own, which can be stopped at a step and killed there. */
export class SupervisorProcess extends CommandedProcess<Replies> {
  readonly instanceId: string;

  private constructor(place: SpawnPlace, instanceId: string, under: readonly string[]) {
    super(place, [...under, process.execPath, script, resolve("dist")]);
    this.instanceId = instanceId;
  }

  static async open(
    place: SpawnPlace,
    instanceId: string,
    options: SupervisorProcessOptions = {},
  ): Promise<SupervisorProcess> {
    const { settleMs = null, home = place.home, url = null, under = [] } = options;
    const child = new SupervisorProcess(place, instanceId, under);
    child.order("open", { home, instanceId, url, settle: settleMs });
    return child.orKill(child.receive("opened"));
  }

  /** Stops when `runs` runs have reached the step. */
  async pauseAt(step: SupervisorStep, runs = 1): Promise<void> {
    this.order("stopAt", { step, runs });
    await this.receive("armed");
  }

  /** Waits until it has reached the step and stopped. */
  async waitUntilPaused(): Promise<SupervisorStep> {
    const { step } = await this.receive("at");
    await waitFor("the supervisor process has stopped", () => readProcess(this.pid)?.state === "T");
    return step;
  }

  /** Continues a stopped process. */
  resume(): void {
    this.signal("SIGCONT");
  }

  async suspend(): Promise<void> {
    this.signal("SIGSTOP");
    await waitFor("the supervisor process has stopped", () => readProcess(this.pid)?.state === "T");
  }

  async spawn(input: CommandInput, options: SpawnOptions = {}): Promise<RunRecord> {
    this.order("spawn", { input, options });
    return (await this.receive("spawned")).record;
  }

  async reconcile(scope: ReconcileScope = {}): Promise<Replies["reconciled"]> {
    this.order("reconcile", { scope });
    return this.receive("reconciled");
  }

  /** Adopts a process out of its run. */
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

  async close(leaveRuns = false): Promise<void> {
    this.order("close", { leaveRuns });
    await this.receive("closed");
    await this.finish();
  }
}
