import type { Anchor } from "./anchor.js";
import { Cast } from "./cast.js";
import type { Process } from "./machine.js";
import type { Random } from "./random.js";
import type { RunTruth } from "./run-truth.js";
import type { SupervisorProcess } from "./supervisor-process.js";
import type { World } from "./world.js";

/** A run in a supervisor's hands. */
export interface Held {
  readonly process: SupervisorProcess;
  readonly runId: string;
}

/** What all acts of a schedule share. */
export class Stage {
  readonly cast: Cast;
  readonly world: World;
  readonly random: Random;
  /** Cancels that were asked for: each must reach its anchor, whatever the store does. */
  readonly asked: Held[] = [];
  readonly serviceShare: number;
  spawned = 0;

  constructor(world: World) {
    this.world = world;
    this.random = world.random;
    this.cast = new Cast(world);
    this.serviceShare = this.random.pick([0.1, 0.5, 0.9]);
  }

  held(suits: (truth: RunTruth) => boolean = () => true): Held | null {
    const held = this.cast.awake.flatMap((process) =>
      [...this.world.watch.runs].flatMap(([runId, truth]) =>
        process.supervisor.run(runId) !== null && suits(truth) ? [{ process, runId }] : [],
      ),
    );
    return this.random.maybePick(held);
  }

  /** A process of a run that has been executed. */
  target(): { process: Process; anchor: Anchor } | null {
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

  wake(process: SupervisorProcess): void {
    this.world.note(() => `${process.name} continues`);
    process.held = false;
    // With what it was about to do: it does not know yet how long it was away.
    for (const runId of this.world.watch.runs.keys()) process.supervisor.run(runId)?.heartbeat();
  }
}
