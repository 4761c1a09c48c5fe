import type { StartSpec } from "../../../src/anchor/host-interface.js";
import type { Actor } from "../scheduler.js";
import type { SimulatedWorld } from "../world.js";
import { SimulatedAnchor } from "./anchor.js";
import { endProcess, sendSignal, type SimulatedPidNamespace, type SimulatedProcess } from "./machine.js";
import { startSpec } from "../../support/anchor/start-spec.js";
import { type SimulatedInstance, SimulatedRunDirectory } from "./state-directory.js";

/** As in the real one. */
const SILENT_MS = 10_000;
const WATCH_MS = 2_000;
const HELD_SLACK_MS = 30_000;

/** Parent of all anchors of an instance. It kills the processes of dead anchors, and ends when it is not needed. */
export class SimulatedLauncher implements Actor {
  readonly place: SimulatedPidNamespace;
  readonly process: SimulatedProcess;
  readonly held = false;
  readonly #world: SimulatedWorld;
  readonly #instance: SimulatedInstance;
  readonly #holders = new Set<Actor>();
  readonly #anchors = new Set<SimulatedAnchor>();
  readonly #lost = new Map<SimulatedAnchor, number>();

  constructor(world: SimulatedWorld, instance: SimulatedInstance, place: SimulatedPidNamespace) {
    this.#world = world;
    this.#instance = instance;
    this.place = place;
    this.process = place.bear({ what: "launcher", parent: null, newSession: true, subreaper: true });
    this.process.onDeath = () => {
      for (const anchor of this.#anchors) anchor.launcherLost = true;
      if (instance.launcher === this) instance.launcher = null;
    };
    instance.launcher = this;
  }

  get gone(): boolean {
    return !this.process.alive;
  }

  get timebase() {
    return this.place.machine;
  }

  hold(by: Actor): void {
    this.#holders.add(by);
  }

  letGo(by: Actor): void {
    this.#holders.delete(by);
    this.#world.scheduler.post(this, () => this.#leaveIfIdle());
  }

  /** Starts a warm anchor: its spec comes with START, and until then its directory is not that of a run. */
  startWarm(runId: string): SimulatedAnchor {
    const { warm, runs } = this.#instance;
    const directory = new SimulatedRunDirectory(runId);
    warm.set(runId, directory);
    const anchor = this.#start({ ...startSpec(runId, []), epoch: 0 }, directory);
    anchor.warm = true;
    anchor.onDiscard = () => warm.delete(runId);
    anchor.onBegin = () => runs.set(runId, directory);
    return anchor;
  }

  start(spec: StartSpec): SimulatedAnchor {
    const directory = new SimulatedRunDirectory(spec.runId);
    this.#instance.runs.set(spec.runId, directory);
    return this.#start(spec, directory);
  }

  #start(spec: StartSpec, directory: SimulatedRunDirectory): SimulatedAnchor {
    const { instanceId } = this.#instance;
    const anchor = new SimulatedAnchor(this.#world, directory, this.place, this.process, spec, instanceId);
    this.#anchors.add(anchor);
    anchor.onHalt = () => this.#watch(anchor, null);
    const gone = anchor.process.onDeath;
    anchor.process.onDeath = (by) => {
      gone(by);
      this.#world.scheduler.post(this, () => this.#anchorEnded(anchor, by));
    };
    return anchor;
  }

  /** Continues a stopped anchor; kills one whose run should have ended. A live supervisor does this first. */
  #watch(anchor: SimulatedAnchor, continuedAt: number | null): void {
    this.#world.scheduler.after(this, continuedAt === null ? SILENT_MS : WATCH_MS, () => {
      if (anchor.gone || !anchor.held) return;
      const { monotonic } = this.place.machine;
      const slack = this.#holders.size > 0 ? HELD_SLACK_MS : 0;
      const due = anchor.due(anchor.owner === null || anchor.owner.by.gone);
      if (this.#world.flaws.launcherImpatient === true) return endProcess(this.#world, anchor.process, 9);
      if (due === null || continuedAt === null || monotonic < due.at + WATCH_MS + slack) {
        if (continuedAt === null && slack === 0) anchor.continue();
        return this.#watch(anchor, continuedAt ?? monotonic);
      }
      const { directory } = anchor;
      const stop = directory.firstStop ?? { reason: due.reason, actor: "launcher", requestId: "" };
      directory.firstStop = { ...stop, withoutAnchor: true };
      for (const each of anchor.members())
        sendSignal(this.#world, { who: "launcher", runId: anchor.runId, place: this.place }, each, "KILL");
      if (anchor.members().length === 0) endProcess(this.#world, anchor.process, 9);
      else this.#watch(anchor, continuedAt);
    });
  }

  #anchorEnded(anchor: SimulatedAnchor, by: number | null): void {
    this.#anchors.delete(anchor);
    if (by !== null) {
      this.#lost.set(anchor, by);
      if (this.#world.flaws.launcherHopes === true) this.#saySwept(0);
      this.#world.scheduler.post(this, () => this.#cleanUp());
    }
    this.#leaveIfIdle();
  }

  /** Children that are no anchors belong to dead anchors, as do the processes in their cgroups. */
  #cleanUp(): void {
    const own = new Set([...this.#anchors].map(({ process }) => process));
    const below = (): SimulatedProcess[] =>
      this.place
        .childrenOf(this.process)
        .filter((child) => !own.has(child))
        .flatMap((child) => [child, ...this.place.descendantsOf(child)]);
    const inside = (): SimulatedProcess[] =>
      [...this.#lost.keys()].flatMap(({ cgroup }) => (cgroup === null ? [] : this.place.membersOf(cgroup)));
    const left = new Set([...below(), ...inside()]);
    for (const each of left)
      sendSignal(
        this.#world,
        { who: "launcher", runId: each.runId ?? null, place: this.place },
        each,
        "KILL",
      );
    if (below().length > 0 || inside().length > 0) {
      this.#world.scheduler.after(this, 100, () => this.#cleanUp());
      return;
    }
    this.#saySwept(left.size);
  }

  #saySwept(killed: number): void {
    for (const [{ directory, cgroup, place }, anchorSignal] of this.#lost) {
      const killMode = cgroup === null ? "pid" : "cgroup";
      directory.swept = { anchorSignal, killed, killMode, emptiness: "proven" };
      if (cgroup !== null && place.membersOf(cgroup).length === 0) place.machine.removeCgroup(cgroup);
    }
    this.#lost.clear();
    this.#leaveIfIdle();
  }

  #leaveIfIdle(): void {
    if (this.#holders.size === 0 && this.#anchors.size === 0 && this.#lost.size === 0)
      endProcess(this.#world, this.process, null);
  }
}
