import type { StartSpec } from "../../../src/anchor/host-interface.js";
import type { Residue } from "../../../src/model/process.js";
import type { SimulatedWorld } from "../world.js";
import type { SimulatedAnchor } from "./anchor.js";
import { sendSignal, type SimulatedProcess } from "./machine.js";

const SWEEP_AGAIN_MS = 1_000;

/** The deadlines and the owner loss of a running command, on the machine's monotonic clock. */
export class SimulatedDeadlines {
  readonly #policy: StartSpec["policy"];
  executedAt = 0;
  outputAt = 0;
  ownerLostAt = 0;

  constructor(policy: StartSpec["policy"]) {
    this.#policy = policy;
  }

  /** Without the backstop. Null: the run has no deadline. */
  dueAt(): number | null {
    const { overallMs, noOutputMs } = this.#policy;
    if (overallMs === null && noOutputMs === null) return null;
    return Math.min(this.executedAt + (overallMs ?? Infinity), this.outputAt + (noOutputMs ?? Infinity));
  }

  due(
    ownerGone: boolean,
    lost: boolean,
    now: number,
  ): { readonly at: number; readonly reason: string } | null {
    const { kind, ownerLossMs, overallMs } = this.#policy;
    const at = this.dueAt();
    if (at !== null) {
      const isOverall = overallMs !== null && at === this.executedAt + overallMs;
      return { at, reason: isOverall ? "overall-timeout" : "no-output-timeout" };
    }
    if (kind === "service" || !ownerGone) return null;
    return { at: (lost ? this.ownerLostAt : now) + ownerLossMs, reason: "owner-lost" };
  }

  /** The reason to stop now; null: there is none. With an owner, the anchor waits for the backstop. */
  overdue(now: number, hasOwner: boolean): string | null {
    const { overallMs, noOutputMs, backstopMs, kind, ownerLossMs } = this.#policy;
    const slack = hasOwner ? backstopMs : 0;
    if (overallMs !== null && now >= this.executedAt + overallMs + slack) return "overall-timeout";
    if (noOutputMs !== null && now >= this.outputAt + noOutputMs + slack) return "no-output-timeout";
    return !hasOwner && kind === "task" && now >= this.ownerLostAt + ownerLossMs ? "owner-lost" : null;
  }

  wakeAt(hasOwner: boolean): number {
    const { kind, ownerLossMs, backstopMs } = this.#policy;
    const deadline = (this.dueAt() ?? Infinity) + (hasOwner ? backstopMs : 0);
    return !hasOwner && kind === "task" ? Math.min(deadline, this.ownerLostAt + ownerLossMs) : deadline;
  }
}

/** TERM, the grace period, then KILL until no process is left. */
export class SimulatedTermination {
  readonly #world: SimulatedWorld;
  readonly #anchor: SimulatedAnchor;
  readonly residue: Residue[] = [];
  graceMs: number;
  escaped = false;
  #since: number | null = null;
  #sweepAt = 0;

  constructor(world: SimulatedWorld, anchor: SimulatedAnchor) {
    this.#world = world;
    this.#anchor = anchor;
    this.graceMs = anchor.spec.policy.graceMs;
  }

  get begun(): boolean {
    return this.#since !== null;
  }

  get nextSweepAt(): number {
    return this.#since === null ? Infinity : Math.max(this.#since + this.graceMs, this.#sweepAt);
  }

  begin(now: number): void {
    if (this.begun) return;
    this.#since = now;
    const { leaderDone, root } = this.#anchor;
    for (const each of this.#anchor.members()) {
      if (leaderDone && each !== root) this.#recordResidue(each);
      this.#signal(each, "TERM");
    }
  }

  sweep(now: number): void {
    if (this.#since === null || now < this.nextSweepAt) return;
    this.#sweepAt = now + SWEEP_AGAIN_MS;
    for (const each of this.#anchor.members()) this.#signal(each, "KILL");
    const left = this.#anchor.members();
    const { killReportMs } = this.#anchor.spec.policy;
    if (left.length === 0 || now < this.#since + this.graceMs + killReportMs) return;
    const survivors = left.map(({ identity: { pid, startTime }, what }) => {
      return { pid, startTime, kind: "unkillable", command: what };
    });
    for (const each of this.#anchor.connections) each.tell({ type: "survivors", survivors });
  }

  #recordResidue({ identity: { pid, startTime }, what, session }: SimulatedProcess): void {
    const kind = session === this.#anchor.root.session ? "background" : "detached";
    this.residue.push({ pid, startTime, kind, command: what });
    if (kind === "detached" && this.#anchor.firstStop === null) this.escaped = true;
  }

  #signal(target: SimulatedProcess, what: "TERM" | "KILL"): void {
    const { runId, place } = this.#anchor;
    sendSignal(this.#world, { who: "anchor", runId, place }, target, what);
  }
}
