import type { ReapRequest, StartSpec } from "../../src/anchor/host-interface.js";
import type { MachineIdentity } from "../../src/model/process.js";
import type { RunEvent } from "../../src/model/run-event.js";
import {
  deadlinesKeepTime,
  endsOnce,
  epochIsCommitted,
  exitEventOnce,
  leaseTakenByRules,
  neverTakenBack,
  onlyNewestOwnerControls,
  provenIsEmpty,
  recordedWithRun,
  recordedBeforeRun,
  signalsOnlyOwnAnchor,
  signalsOnlyOwnProcesses,
} from "./invariants.js";
import type { SimulatedAnchor } from "./parts/anchor.js";
import type { RecordCommit } from "./parts/database.js";
import type { SignalSender, SimulatedProcess } from "./parts/machine.js";
import type { SimulatedSupervisor } from "./parts/supervisor.js";
import { RunTruth } from "./run-truth.js";
import type { SimulatedWorld } from "./world.js";

/** A promise was broken. */
class InvariantViolation extends Error {}

/** Where an instance's supervisor is now, and whether anything ever kept it from renewing. */
interface InstanceLocation {
  readonly identity: MachineIdentity;
  hindered: boolean;
}

/** Sees everything that happens, in the moment it happens, and checks it against the invariants. */
export class InvariantMonitor {
  readonly runs = new Map<string, RunTruth>();
  readonly whereabouts = new Map<string, InstanceLocation>();
  readonly #world: SimulatedWorld;
  #violation: string | null = null;
  #asking: SimulatedSupervisor | null = null;
  commits = 1;

  constructor(world: SimulatedWorld) {
    this.#world = world;
  }

  /** Throws the first violation since the last call. Deferred, because the code under test catches errors. */
  raise(): void {
    if (this.#violation !== null) throw new InvariantViolation(this.#violation);
  }

  /** Commits during `work` are attributed to this process. */
  by<T>(process: SimulatedSupervisor, work: () => T): T {
    this.#asking = process;
    try {
      return work();
    } finally {
      this.#asking = null;
    }
  }

  blame(runId: string | null, what: string | null): void {
    if (what === null) return;
    this.#violation ??= runId === null ? what : `${this.alias(runId)}: ${what}`;
    this.#world.note(() => `VIOLATION ${this.#violation}`);
  }

  truth(runId: string): RunTruth {
    let found = this.runs.get(runId);
    if (found === undefined) {
      found = new RunTruth(`run ${this.runs.size + 1}`);
      this.runs.set(runId, found);
    }
    return found;
  }

  alias(runId: string): string {
    return this.truth(runId).alias;
  }

  started(anchor: SimulatedAnchor, spec: StartSpec): void {
    const truth = this.truth(anchor.runId);
    truth.anchor = anchor;
    truth.leaseId = spec.env["HOLDFAST_LEASE_ID"] ?? "";
  }

  runOfLease({ leaseId, root }: ReapRequest): string | null {
    for (const [runId, truth] of this.runs) if (leaseId !== null && truth.leaseId === leaseId) return runId;
    for (const [runId, { anchor }] of this.runs)
      if (root !== null && anchor?.root.identity.uniqueId === root.uniqueId) return runId;
    return null;
  }

  signalled(by: SignalSender, target: SimulatedProcess): void {
    this.blame(by.runId, signalsOnlyOwnProcesses(by, target));
  }

  signalledAnchor(who: "reap" | "continue", runId: string, target: SimulatedProcess): void {
    this.blame(runId, signalsOnlyOwnAnchor(who, runId, target));
  }

  executed(anchor: SimulatedAnchor): void {
    if (this.truth(anchor.runId).forgotten) return;
    this.blame(anchor.runId, recordedBeforeRun(anchor, this.#world.database.getRun(anchor.runId)));
  }

  owned(anchor: SimulatedAnchor, epoch: number): void {
    const truth = this.truth(anchor.runId);
    this.blame(anchor.runId, epochIsCommitted(epoch, truth));
    truth.highestOwned = Math.max(truth.highestOwned, epoch);
  }

  steered(anchor: SimulatedAnchor, epoch: number, what: string): void {
    this.blame(anchor.runId, onlyNewestOwnerControls(epoch, what, this.truth(anchor.runId)));
  }

  stopped(anchor: SimulatedAnchor, reason: string): void {
    this.blame(anchor.runId, deadlinesKeepTime(anchor, reason));
    this.truth(anchor.runId).stoppedAt ??= anchor.place.machine.monotonic;
  }

  discarded(runId: string): void {
    const state = this.#world.database.getRun(runId)?.state;
    const truth = this.truth(runId);
    // Another supervisor may just have forgotten it.
    const wasForgotten = state === undefined && truth.ended;
    // The record of the run was refused, so its command never runs.
    const neverRuns = state === undefined && truth.exitFileWritten() && truth.anchor?.executed === false;
    if (state !== "exited" && !wasForgotten && !neverRuns)
      this.blame(runId, `its directory was removed while it was ${state ?? "unknown"}`);
  }

  noted(event: RunEvent): void {
    this.blame(event.runId, exitEventOnce(event, this.truth(event.runId)));
  }

  committed(commit: RecordCommit): void {
    const { before, after, by } = commit;
    const { runId, leaseEpoch } = after;
    const truth = this.truth(runId);
    this.commits++;
    this.blame(runId, endsOnce(commit));
    if (before?.state !== "exited") this.blame(runId, provenIsEmpty(after, truth));
    if (before === null) this.blame(runId, recordedWithRun(after, truth));
    if (after.state === "exited") truth.end();
    if (by === "claim" && before !== null) this.#taken(commit, truth);
    if (by === "claim" && this.#asking !== null) this.blame(runId, neverTakenBack(this.#asking, truth));
    truth.committedEpochs.add(leaseEpoch);
    if (by !== "save") truth.renewedAt = this.commits;
    if (by !== "renew")
      this.#world.note(() => {
        const end = after.exit === null ? "" : `, ${after.exit.reason}, ${after.emptiness}`;
        return `store: ${by} ${truth.alias}: ${after.state} by ${after.ownerInstanceId}, epoch ${leaseEpoch}${end}`;
      });
  }

  #taken({ before, after }: RecordCommit, truth: RunTruth): void {
    const taker = this.whereabouts.get(after.ownerInstanceId);
    if (before === null || taker === undefined) return;
    const machine = this.#world.machines.find(({ hostId }) => hostId === taker.identity.hostId);
    const instance = machine && this.#world.directoryOf(machine).instances.get(before.ownerInstanceId);
    this.blame(
      after.runId,
      leaseTakenByRules({
        before,
        after,
        taker: taker.identity,
        now: this.#world.database.now(),
        truth,
        lockWasFree: instance === undefined || !instance.locked || instance.freeAt >= truth.renewedAt,
        local: instance !== undefined,
        hindered: this.whereabouts.get(before.ownerInstanceId)?.hindered ?? true,
      }),
    );
  }
}
