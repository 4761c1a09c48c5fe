import type { AnchorExit, LeaderStatus, RecordedStop, RunRemains, Swept } from "../../src/anchor/host.js";
import type { Anchor } from "./anchor.js";
import type { Launcher } from "./launcher.js";

/** What lies in a run's directory. It outlives every process. */
export class RunDirectory {
  readonly runId: string;
  anchor: Anchor | null = null;
  exit: AnchorExit | null = null;
  leader: LeaderStatus | null = null;
  firstStop: RecordedStop | null = null;
  swept: Swept | null = null;

  constructor(runId: string) {
    this.runId = runId;
  }

  get remains(): RunRemains {
    const { exit, leader, firstStop, swept } = this;
    return { exit, leader, firstStop, swept };
  }
}

/** An instance's directory: its lock, its launcher, its runs. */
export class Instance {
  readonly instanceId: string;
  readonly runs = new Map<string, RunDirectory>();
  launcher: Launcher | null = null;
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

/** What the supervisors of one machine share beside the store. */
export class StateDirectory {
  readonly instances = new Map<string, Instance>();

  instance(instanceId: string): Instance {
    let found = this.instances.get(instanceId);
    if (found === undefined) {
      found = new Instance(instanceId);
      this.instances.set(instanceId, found);
    }
    return found;
  }

  run({ instanceId, runId }: { readonly instanceId: string; readonly runId: string }): RunDirectory | null {
    return this.instances.get(instanceId)?.runs.get(runId) ?? null;
  }
}
