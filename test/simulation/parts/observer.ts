import type {
  CgroupRef,
  CgroupState,
  KnownAnchor,
  LocalInstance,
  OutputSlice,
  PortEvidence,
  ProcessEvidence,
  RunAddress,
  RunIdentities,
} from "../../../src/anchor/host-interface.js";
import type { ProcessIdentity } from "../../../src/model/process.js";
import type { SimulatedWorld } from "../world.js";
import { evidenceOf, findAnchor, type SimulatedMachine, type SimulatedPidNamespace } from "./machine.js";
import type { SimulatedInstance, SimulatedStateDirectory } from "./state-directory.js";
import type { SimulatedSupervisor } from "./supervisor.js";

/** One supervisor's view of its machine. Every query is made at one moment and answered at a later one. */
export class SimulatedObserver {
  readonly anchorPath = "/sim/anchor";
  readonly machine;
  protected readonly world: SimulatedWorld;
  protected readonly by: SimulatedSupervisor;
  protected readonly place: SimulatedPidNamespace;
  protected readonly kernel: SimulatedMachine;
  protected readonly directory: SimulatedStateDirectory;
  protected readonly instance: SimulatedInstance;

  constructor(world: SimulatedWorld, by: SimulatedSupervisor, instance: SimulatedInstance) {
    this.world = world;
    this.by = by;
    this.place = by.place;
    this.kernel = by.place.machine;
    this.directory = world.directoryOf(this.kernel);
    this.instance = instance;
    this.machine = by.place.identity;
  }

  readOutput(_run: RunAddress, _stream: string, offset: number): Promise<OutputSlice> {
    return this.ask(() => ({ offset, bytes: new Uint8Array() }));
  }

  listInstances(): Promise<readonly LocalInstance[]> {
    const blind = this.world.flaws.blindToLocks === true;
    return this.ask(() =>
      [...this.directory.instances.values()].map(({ instanceId, locked, launcher }) => {
        const alive = locked && !(blind && instanceId !== this.instance.instanceId);
        return { instanceId, alive, launched: launcher !== null };
      }),
    );
  }

  inspectProcesses(wanted: readonly (ProcessIdentity | number)[]): Promise<readonly ProcessEvidence[]> {
    return this.ask(() => {
      this.#mustList();
      return wanted.map((each) => evidenceOf(this.place, each));
    });
  }

  /** There is no network. */
  inspectPort(): Promise<PortEvidence> {
    return this.ask(() => ({ open: false, holders: [] }));
  }

  inspectCgroups(wanted: readonly CgroupRef[]): Promise<readonly CgroupState[]> {
    return this.ask(() => {
      this.#mustList();
      return wanted.map(({ path, inode }) => {
        const found = this.kernel.cgroups.find((each) => each.path === path && each.inode === inode);
        if (found === undefined) return "gone";
        return this.kernel.places.some((place) => place.membersOf(found).length > 0) ? "populated" : "empty";
      });
    });
  }

  findMarkedLeases(leaseIds: readonly string[]): Promise<ReadonlySet<string>> {
    return this.ask(() => {
      this.#mustList();
      const carried = new Set<string | null>();
      for (const place of this.kernel.places)
        for (const { alive, leaseId } of place.processes.values()) if (alive) carried.add(leaseId);
      return new Set(leaseIds.filter((leaseId) => carried.has(leaseId)));
    });
  }

  readIdentities(run: RunAddress): Promise<RunIdentities | null> {
    return this.ask(() => {
      const anchor = this.directory.run(run)?.anchor ?? null;
      if (anchor === null) return null;
      const { process, root, cgroup } = anchor;
      return { anchor: process.identity, root: root.identity, cgroup };
    });
  }

  listOpenRunDirectories(pid: number): Promise<readonly string[]> {
    return this.ask(() => {
      const runId = this.place.processes.get(pid)?.directoryOf ?? null;
      return runId === null ? [] : [runId];
    });
  }

  continueAnchor(known: KnownAnchor): Promise<string | null> {
    return this.ask(() => {
      const found = findAnchor(this.place, known, this.world.flaws.anchorByProgram);
      if (found === null) return "the anchor is gone";
      this.world.watch.signalledAnchor("continue", known.runId, found);
      for (const { anchor } of this.world.watch.runs.values())
        if (anchor?.process === found) anchor.continue();
      return null;
    });
  }

  takeSilentFile(): Promise<null> {
    return this.ask(() => null);
  }

  directorySize(): Promise<number> {
    return this.ask(() => 0);
  }

  #mustList(): void {
    if (this.kernel.listingFails) throw new Error("process listing unavailable");
  }

  protected answer(deliver: () => void): void {
    this.world.scheduler.post(this.by, deliver);
  }

  protected ask<T>(work: () => T): Promise<T> {
    return this.later((resolve, reject) => {
      try {
        const value = work();
        this.answer(() => resolve(value));
      } catch (error) {
        this.answer(() => reject(error as Error));
      }
    });
  }

  /** Runs when the schedule picks it. For a process that ended meanwhile it may or may not run. */
  protected later<T>(
    work: (resolve: (value: T) => void, reject: (error: Error) => void) => void,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const boot = this.kernel.bootId;
      this.world.scheduler.post(this.kernel, () => {
        if (this.kernel.bootId !== boot || (this.by.gone && this.world.random.chance(0.5))) return;
        work(resolve, reject);
      });
    });
  }
}
