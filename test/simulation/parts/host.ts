import type {
  AnchorHost,
  AnchorLink,
  CgroupRef,
  CgroupState,
  FirstStop,
  KnownAnchor,
  LocalInstance,
  OutputSlice,
  PortEvidence,
  ProcessEvidence,
  ReapRequest,
  ReapResult,
  RunAddress,
  RunFiles,
  RunIdentities,
  StartSpec,
  SweptFile,
} from "../../../src/anchor/host.js";
import { SpawnFailed, StaleEpoch } from "../../../src/errors.js";
import type { ProcessIdentity } from "../../../src/model/process.js";
import type { SimulatedWorld } from "../world.js";
import { SimulatedLauncher } from "./launcher.js";
import { evidenceOf, matchesIdentity, type SimulatedMachine, type SimulatedPidNamespace } from "./machine.js";
import { reap } from "./reap.js";
import type { SimulatedInstance, SimulatedStateDirectory } from "./state-directory.js";
import type { SimulatedSupervisor } from "./supervisor.js";

const NO_RUN_FILES: RunFiles = { exit: null, leader: null, firstStop: null, swept: null };

/** One supervisor's access to its machine. Every question is put at one moment and answered at a later one. */
export class SimulatedHost implements AnchorHost {
  readonly anchorPath = "/sim/anchor";
  readonly machine;
  readonly #world: SimulatedWorld;
  readonly #by: SimulatedSupervisor;
  readonly #place: SimulatedPidNamespace;
  readonly #kernel: SimulatedMachine;
  readonly #directory: SimulatedStateDirectory;
  readonly #instance: SimulatedInstance;

  constructor(world: SimulatedWorld, by: SimulatedSupervisor, instance: SimulatedInstance) {
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
      const launcher =
        this.#instance.launcher ?? new SimulatedLauncher(this.#world, this.#instance, this.#place);
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

  readRunFiles(run: RunAddress): Promise<RunFiles> {
    return this.#ask(() => this.#directory.run(run)?.remains ?? NO_RUN_FILES);
  }

  listInstances(): Promise<readonly LocalInstance[]> {
    const blind = this.#world.flaws.blindToLocks === true;
    return this.#ask(() =>
      [...this.#directory.instances.values()].map(({ instanceId, locked, launcher }) => {
        const alive = locked && !(blind && instanceId !== this.#instance.instanceId);
        return { instanceId, alive, launched: launcher !== null };
      }),
    );
  }

  listRunIds(instanceId: string): Promise<readonly string[]> {
    return this.#ask(() => [...(this.#directory.instances.get(instanceId)?.runs.keys() ?? [])]);
  }

  listRunCgroups(instanceId: string): Promise<readonly (CgroupRef & { readonly runId: string })[]> {
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

  inspectProcesses(wanted: readonly (ProcessIdentity | number)[]): Promise<readonly ProcessEvidence[]> {
    return this.#ask(() => {
      this.#mustList();
      return wanted.map((each) => evidenceOf(this.#place, each));
    });
  }

  /** There is no network. */
  inspectPort(): Promise<PortEvidence> {
    return this.#ask(() => ({ open: false, holders: [] }));
  }

  inspectCgroups(wanted: readonly CgroupRef[]): Promise<readonly CgroupState[]> {
    return this.#ask(() => {
      this.#mustList();
      return wanted.map(({ path, inode }) => {
        const found = this.#kernel.cgroups.find((each) => each.path === path && each.inode === inode);
        if (found === undefined) return "gone";
        return this.#kernel.places.some((place) => place.membersOf(found).length > 0) ? "populated" : "empty";
      });
    });
  }

  findMarkedLeases(leaseIds: readonly string[]): Promise<ReadonlySet<string>> {
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

  readIdentities(run: RunAddress): Promise<RunIdentities | null> {
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
      if (found?.what !== "anchor" || !matchesIdentity(found, identity)) return "the anchor is gone";
      for (const { anchor } of this.#world.watch.runs.values())
        if (anchor?.process === found) anchor.continue();
      return null;
    });
  }

  takeSilentFile(): Promise<null> {
    return this.#ask(() => null);
  }

  writeStopFile(run: RunAddress, stop: FirstStop): Promise<FirstStop> {
    return this.#ask(() => {
      const directory = this.#directory.run(run);
      const { reason, actor, requestId } = directory?.firstStop ?? stop;
      if (directory !== null) directory.firstStop = { reason, actor, requestId, withoutAnchor: true };
      return { reason, actor, requestId };
    });
  }

  writeSweptFile(run: RunAddress, swept: SweptFile): Promise<void> {
    return this.#ask(() => {
      const directory = this.#directory.run(run);
      if (directory !== null) directory.swept = swept;
    });
  }

  directorySize(): Promise<number> {
    return this.#ask(() => 0);
  }

  removeRunDirectory({ instanceId, runId }: RunAddress): Promise<void> {
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

  #connected(connection: ReturnType<NonNullable<SimulatedInstance["launcher"]>["start"]>["owner"]): void {
    if (connection === null) return;
    // The client may end before the anchor receives it.
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

  /** Runs when the schedule picks it. For a process that ended meanwhile it may or may not run. */
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
