import { defaults } from "../../defaults.js";
import type { RunEvent } from "../../model/run-event.js";
import type { KillMode } from "../../model/run.js";

/** A decision of a supervisor about a run that it found without its owner. */
export interface ReconcileDecision {
  readonly runId: string;
  readonly at: number;
  readonly action: string;
  readonly why: string;
  /** The instance that decided, and the former owner. */
  readonly by: string;
  readonly from: string;
}

/** Counts of the events of runs since the start of the gateway. */
export class RunTotals {
  spawned = 0;
  ended = 0;
  /** Processes that were ended besides the leader of their run, by how they were ended. */
  readonly cleaned: Record<Exclude<KillMode, "none">, number> = { pid: 0, pgid: 0, cgroup: 0, job: 0 };
  /** The newest last. */
  readonly reconciled: ReconcileDecision[] = [];

  count({ type, runId, at, data }: RunEvent): void {
    if (type === "spawn") this.spawned++;
    if (type === "exit") this.ended++;
    if (type === "cleanup") {
      const { mode, residue, ended = residue } = data;
      if (mode !== "none") this.cleaned[mode] += ended;
    }
    if (type !== "reconcile") return;
    const { action, why, by, from } = data;
    this.reconciled.push({ runId, at, action, why, by, from });
    if (this.reconciled.length > defaults.reconciledKept) this.reconciled.shift();
  }
}
