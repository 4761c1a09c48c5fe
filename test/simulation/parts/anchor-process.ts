import type { StartSpec } from "../../../src/anchor/host-interface.js";
import type { SimulatedWorld } from "../world.js";
import type { SimulatedCgroup, SimulatedPidNamespace, SimulatedProcess } from "./machine.js";
import type { SimulatedRunDirectory } from "./state-directory.js";

/** The processes of an anchor and its run, and whether the anchor is stopped. */
export class SimulatedAnchorProcess {
  readonly name = "anchor";
  readonly runId: string;
  /** A placeholder while the anchor is warm. */
  spec: StartSpec;
  readonly place: SimulatedPidNamespace;
  readonly process: SimulatedProcess;
  readonly root: SimulatedProcess;
  readonly cgroup: SimulatedCgroup | null;
  readonly directory: SimulatedRunDirectory;
  protected readonly world: SimulatedWorld;
  /** Stopped: it does not answer. */
  held = false;
  /** Held by a debugger: SIGCONT does not help. */
  traced = false;
  /** Notifies the launcher. */
  onHalt: () => void = () => undefined;

  constructor(
    world: SimulatedWorld,
    directory: SimulatedRunDirectory,
    place: SimulatedPidNamespace,
    parent: SimulatedProcess,
    spec: StartSpec,
    instanceId: string,
  ) {
    const { runId } = spec;
    this.world = world;
    this.runId = runId;
    this.spec = spec;
    this.place = place;
    this.directory = directory;
    const kind = { newSession: true, subreaper: true, directoryOf: runId } as const;
    this.process = place.bear({ what: "anchor", parent, ...kind });
    const cgroup = place.machine.makeCgroup(instanceId, runId);
    this.cgroup = cgroup;
    this.root = place.bear({ what: "root", parent: this.process, newSession: true, runId, cgroup });
    this.root.ignoresTerm = spec.argv.includes("ignore-term");
  }

  get gone(): boolean {
    return !this.process.alive;
  }

  get timebase() {
    return this.place.machine;
  }

  get alias(): string {
    return this.world.watch.alias(this.runId);
  }

  /** The processes of its run: its descendants, and those in its cgroup. */
  members(): SimulatedProcess[] {
    const below = this.place.descendantsOf(this.process);
    const inside = this.cgroup === null ? [] : this.place.membersOf(this.cgroup);
    return [...new Set([...below, ...inside])];
  }

  /** SIGSTOP, or (`traced`) a debugger. */
  halt(traced: boolean): void {
    this.held = true;
    this.traced ||= traced;
    this.world.note(() => `anchor of ${this.alias} is ${traced ? "held by a debugger" : "stopped"}`);
    this.onHalt();
  }

  /** The debugger detaches, or SIGCONT arrives. */
  release(): void {
    this.traced = false;
    this.held = false;
  }

  /** SIGCONT. */
  continue(): void {
    if (!this.held || this.traced) return;
    this.world.note(() => `anchor of ${this.alias} is continued`);
    this.held = false;
  }
}
