import type {
  AnchorHost,
  AnchorLink,
  Boundary,
  BoundaryEvidence,
  FirstStop,
  KnownAnchor,
  LocalInstance,
  OutputSlice,
  PortEvidence,
  ProcessEvidence,
  ReapRequest,
  ReapResult,
  RunAddress,
  RunIdentities,
  RunRemains,
  StartSpec,
  Swept,
} from "../../src/anchor/host.js";
import { SpawnFailed, StaleEpoch } from "../../src/errors.js";
import type { ProcessIdentity } from "../../src/store/run-record.js";
import { evidenceOf, isSame } from "./inspect.js";
import { Launcher } from "./launcher.js";
import type { Machine, Place } from "./machine.js";
import { reap } from "./reap.js";
import type { Instance, StateDirectory } from "./state-directory.js";
import type { SupervisorProcess } from "./supervisor-process.js";
import type { World } from "./world.js";

const NOTHING_LEFT: RunRemains = { exit: null, leader: null, firstStop: null, swept: null };

/** One supervisor's access to its machine. Every question is put at one moment and answered at a later one. */
export class SimulatedHost implements AnchorHost {
  readonly anchorPath = "/sim/anchor";
  readonly machine;
  readonly #world: World;
  readonly #by: SupervisorProcess;
  readonly #place: Place;
  readonly #kernel: Machine;
  readonly #directory: StateDirectory;
  readonly #instance: Instance;

  constructor(world: World, by: SupervisorProcess, instance: Instance) {
    this.#world = world;
    this.#by = by;
    this.#place = by.place;
    this.#kernel = by.place.machine;
    this.#directory = world.directoryOf(this.#kernel);
    this.#instance = instance;
    this.machine = by.place.identity;
  }

  start(spec: StartSpec): Promise<AnchorLink> {
    return this.#later((resolve, reject) => {
      if (spec.argv.includes("no-fork"))
        return this.#answer(() => reject(new SpawnFailed(spec.runId, 11, "fork", "cannot start a process")));
      const launcher = this.#instance.launcher ?? new Launcher(this.#world, this.#instance, this.#place);
      launcher.hold(this.#by);
      const anchor = launcher.start(spec);
      this.#world.watch.started(anchor);
      this.#connected(anchor.connect(this.#by, spec.epoch, resolve));
    });
  }

  attach(run: RunAddress, epoch: number): Promise<AnchorLink | null> {
    return this.#later((resolve, reject) => {
      const anchor = this.#directory.run(run)?.anchor ?? null;
      if (anchor === null || anchor.gone) return this.#answer(() => resolve(null));
      if (anchor.held) return this.#answer(() => reject(new Error("the anchor does not answer")));
      const connection = anchor.connect(this.#by, epoch, resolve);
      if (connection === null)
        return this.#answer(() => reject(new StaleEpoch(run.runId, anchor.highestEpoch)));
      this.#connected(connection);
    });
  }

  readOutput(_run: RunAddress, _stream: string, offset: number): Promise<OutputSlice> {
    return this.#ask(() => ({ offset, bytes: new Uint8Array() }));
  }

  remains(run: RunAddress): Promise<RunRemains> {
    return this.#ask(() => this.#directory.run(run)?.remains ?? NOTHING_LEFT);
  }

  instances(): Promise<readonly LocalInstance[]> {
    const blind = this.#world.flaws.blindToLocks === true;
    return this.#ask(() =>
      [...this.#directory.instances.values()].map(({ instanceId, locked, launcher }) => {
        const alive = locked && !(blind && instanceId !== this.#instance.instanceId);
        return { instanceId, alive, launched: launcher !== null };
      }),
    );
  }

  runIds(instanceId: string): Promise<readonly string[]> {
    return this.#ask(() => [...(this.#directory.instances.get(instanceId)?.runs.keys() ?? [])]);
  }

  boundaries(instanceId: string): Promise<readonly (Boundary & { readonly runId: string })[]> {
    return this.#ask(() =>
      this.#kernel.cgroups
        .filter((each) => each.instanceId === instanceId)
        .map(({ path, inode, runId }) => ({ path, inode, runId })),
    );
  }

  removeInstance(instanceId: string): Promise<boolean> {
    return this.#ask(() => {
      const found = this.#directory.instances.get(instanceId);
      if (found === undefined || found.locked || found.runs.size > 0 || found.launcher !== null) return false;
      return this.#directory.instances.delete(instanceId);
    });
  }

  inspect(wanted: readonly (ProcessIdentity | number)[]): Promise<readonly ProcessEvidence[]> {
    return this.#ask(() => {
      this.#mustList();
      return wanted.map((each) => evidenceOf(this.#place, each));
    });
  }

  /** There is no network. */
  inspectPort(): Promise<PortEvidence> {
    return this.#ask(() => ({ open: false, holders: [] }));
  }

  inspectBoundaries(wanted: readonly Boundary[]): Promise<readonly BoundaryEvidence[]> {
    return this.#ask(() => {
      this.#mustList();
      return wanted.map(({ path, inode }) => {
        const found = this.#kernel.cgroups.find((each) => each.path === path && each.inode === inode);
        if (found === undefined) return "gone";
        return this.#kernel.places.some((place) => place.membersOf(found).length > 0) ? "populated" : "empty";
      });
    });
  }

  markedBy(leaseIds: readonly string[]): Promise<ReadonlySet<string>> {
    return this.#ask(() => {
      this.#mustList();
      const carried = new Set<string | null>();
      for (const place of this.#kernel.places)
        for (const { alive, leaseId } of place.processes.values()) if (alive) carried.add(leaseId);
      return new Set(leaseIds.filter((leaseId) => carried.has(leaseId)));
    });
  }

  reap(request: ReapRequest): Promise<ReapResult> {
    return this.#later((resolve, reject) => {
      if (this.#kernel.listingFails)
        return this.#answer(() => reject(new Error("process listing unavailable")));
      const runId = this.#world.watch.runOfLease(request);
      reap(this.#world, this.#place, runId, request, (result) => this.#answer(() => resolve(result)));
    });
  }

  identities(run: RunAddress): Promise<RunIdentities | null> {
    return this.#ask(() => {
      const anchor = this.#directory.run(run)?.anchor ?? null;
      if (anchor === null) return null;
      const { process, root, cgroup } = anchor;
      return { anchor: process.identity, root: root.identity, cgroup };
    });
  }

  continueAnchor({ identity }: KnownAnchor): Promise<string | null> {
    return this.#ask(() => {
      const found = this.#place.processes.get(identity.pid);
      if (found?.what !== "anchor" || !isSame(found, identity)) return "the anchor is gone";
      for (const { anchor } of this.#world.watch.runs.values())
        if (anchor?.process === found) anchor.continue();
      return null;
    });
  }

  takeSilence(): Promise<null> {
    return this.#ask(() => null);
  }

  recordStop(run: RunAddress, stop: FirstStop): Promise<FirstStop> {
    return this.#ask(() => {
      const directory = this.#directory.run(run);
      const { reason, actor, requestId } = directory?.firstStop ?? stop;
      if (directory !== null) directory.firstStop = { reason, actor, requestId, withoutAnchor: true };
      return { reason, actor, requestId };
    });
  }

  recordSwept(run: RunAddress, swept: Swept): Promise<void> {
    return this.#ask(() => {
      const directory = this.#directory.run(run);
      if (directory !== null) directory.swept = swept;
    });
  }

  size(): Promise<number> {
    return this.#ask(() => 0);
  }

  discard({ instanceId, runId }: RunAddress): Promise<void> {
    return this.#ask(() => {
      this.#world.watch.discarded(runId);
      this.#directory.instances.get(instanceId)?.runs.delete(runId);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#by.hangUpAll();
  }

  #mustList(): void {
    if (this.#kernel.listingFails) throw new Error("process listing unavailable");
  }

  #connected(connection: ReturnType<NonNullable<Instance["launcher"]>["start"]>["owner"]): void {
    if (connection === null) return;
    // Its asker may be gone before the anchor has heard of it.
    if (this.#by.gone) connection.hangUp();
    else this.#by.connections.add(connection);
  }

  #answer(deliver: () => void): void {
    this.#world.scheduler.post(this.#by, deliver);
  }

  #ask<T>(work: () => T): Promise<T> {
    return this.#later((resolve, reject) => {
      try {
        const value = work();
        this.#answer(() => resolve(value));
      } catch (error) {
        this.#answer(() => reject(error as Error));
      }
    });
  }

  /** Put at a moment of the schedule's choosing. Of somebody who died meanwhile it may have been put, or not. */
  #later<T>(work: (resolve: (value: T) => void, reject: (error: Error) => void) => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const boot = this.#kernel.bootId;
      this.#world.scheduler.post(this.#kernel, () => {
        if (this.#kernel.bootId !== boot || (this.#by.gone && this.#world.random.chance(0.5))) return;
        work(resolve, reject);
      });
    });
  }
}
