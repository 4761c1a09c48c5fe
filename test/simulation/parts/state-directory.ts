import type {
  AnchorExit,
  LeaderStatus,
  StopFile,
  RunFiles,
  SweptFile,
} from "../../../src/anchor/host-interface.js";
import type { SimulatedAnchor } from "./anchor.js";
import type { SimulatedLauncher } from "./launcher.js";

/** The files of a run's directory. They outlive every process. */
export class SimulatedRunDirectory {
  readonly runId: string;
  anchor: SimulatedAnchor | null = null;
  exit: AnchorExit | null = null;
  leader: LeaderStatus | null = null;
  firstStop: StopFile | null = null;
  swept: SweptFile | null = null;

  constructor(runId: string) {
    this.runId = runId;
  }

  get remains(): RunFiles {
    const { exit, leader, firstStop, swept } = this;
    return { exit, leader, firstStop, swept };
  }
}

/** An instance's directory: its lock, its launcher, its runs. */
export class SimulatedInstance {
  readonly instanceId: string;
  readonly runs = new Map<string, SimulatedRunDirectory>();
  /** The directories of warm anchors. */
  readonly warm = new Map<string, SimulatedRunDirectory>();
  launcher: SimulatedLauncher | null = null;
  /** The process whose lock file is in place, stopped or not. Null: the lock is free. */
  holder: object | null = null;
  /** When it was last free before it was taken, in the order of commits. */
  freeAt = 0;

  constructor(instanceId: string) {
    this.instanceId = instanceId;
  }

  get locked(): boolean {
    return this.holder !== null;
  }
}

/** The state directory that the supervisors of one machine share. */
export class SimulatedStateDirectory {
  readonly instances = new Map<string, SimulatedInstance>();

  instance(instanceId: string): SimulatedInstance {
    let found = this.instances.get(instanceId);
    if (found === undefined) {
      found = new SimulatedInstance(instanceId);
      this.instances.set(instanceId, found);
    }
    return found;
  }

  run({
    instanceId,
    runId,
  }: {
    readonly instanceId: string;
    readonly runId: string;
  }): SimulatedRunDirectory | null {
    return this.instances.get(instanceId)?.runs.get(runId) ?? null;
  }
}
