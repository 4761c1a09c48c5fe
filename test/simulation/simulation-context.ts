import type { SimulatedAnchor } from "./parts/anchor.js";
import { Actors } from "./actors.js";
import type { SimulatedProcess } from "./parts/machine.js";
import type { Random } from "./random.js";
import type { RunTruth } from "./run-truth.js";
import type { SimulatedSupervisor } from "./parts/supervisor.js";
import type { SimulatedWorld } from "./world.js";

/** A run in a supervisor's hands. */
export interface HeldRun {
  readonly process: SimulatedSupervisor;
  readonly runId: string;
  /** False: another supervisor has taken the run over, and this one does not know it yet. */
  readonly isOwned: boolean;
}

/** Shared by all actions of a schedule. */
export class SimulationContext {
  readonly actors: Actors;
  readonly world: SimulatedWorld;
  readonly random: Random;
  /** Requested cancels: each must reach its anchor, whatever the store does. */
  readonly cancelRequests: HeldRun[] = [];
  readonly serviceShare: number;
  spawned = 0;

  constructor(world: SimulatedWorld) {
    this.world = world;
    this.random = world.random;
    this.actors = new Actors(world);
    this.serviceShare = this.random.pick([0.1, 0.5, 0.9]);
  }

  pickHeldRun(suits: (truth: RunTruth) => boolean = () => true): HeldRun | null {
    const held = this.actors.awake.flatMap((process) =>
      [...this.world.watch.runs].flatMap(([runId, truth]) =>
        process.supervisor.run(runId) !== null && suits(truth) ? [this.heldRun(process, runId)] : [],
      ),
    );
    return this.random.maybePick(held);
  }

  heldRun(process: SimulatedSupervisor, runId: string): HeldRun {
    const owner = this.world.database.getRun(runId)?.ownerInstanceId ?? process.instanceId;
    return { process, runId, isOwned: owner === process.instanceId };
  }

  /** A process of a run that has been executed. */
  pickProcess(): { process: SimulatedProcess; anchor: SimulatedAnchor } | null {
    const targets = [...this.world.watch.runs.values()].flatMap(({ anchor }) =>
      anchor?.executed === true
        ? anchor.place
            .ofRun(anchor.runId)
            .filter(({ stuck }) => !stuck)
            .map((process) => ({ process, anchor }))
        : [],
    );
    return this.random.maybePick(targets);
  }

  wake(process: SimulatedSupervisor): void {
    this.world.note(() => `${process.name} continues`);
    process.held = false;
    // It continues with its next step, and does not know yet how long it was stopped.
    for (const runId of this.world.watch.runs.keys()) process.supervisor.run(runId)?.heartbeat();
  }
}
