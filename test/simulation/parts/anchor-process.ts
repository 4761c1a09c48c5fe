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
  launcherLost = false;
  /** It was started before it had a run. */
  startedWarm = false;
  /** It ended warm, and has removed its directory. */
  leftNothing = false;
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
    if (!place.machine.hasUniqueIds && this.#looksLikeDeadAnchor())
      world.count("an anchor without a unique id has the pid and start time of a dead one");
    const cgroup = place.machine.makeCgroup(instanceId, runId);
    this.cgroup = cgroup;
    this.root = place.bear({ what: "root", parent: this.process, newSession: true, runId, cgroup });
    this.root.ignoresTerm = spec.argv.includes("ignore-term");
  }

  #looksLikeDeadAnchor(): boolean {
    const { pid, startTime } = this.process.identity;
    return [...this.world.watch.runs.values()].some(
      ({ anchor }) =>
        anchor?.gone === true &&
        anchor.place === this.place &&
        anchor.process.identity.pid === pid &&
        anchor.process.identity.startTime === startTime,
    );
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

  get tier(): string {
    const parts = [this.cgroup === null ? "subreaper" : "cgroup", ...(this.launcherLost ? [] : ["launcher"])];
    return [...parts, this.place.machine.hasUniqueIds ? "unique" : "handle"].join("+");
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
