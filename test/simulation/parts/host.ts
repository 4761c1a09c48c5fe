import type {
  AnchorHost,
  AnchorLink,
  CgroupRef,
  FirstStop,
  ReapRequest,
  ReapResult,
  RunAddress,
  RunFiles,
  StartSpec,
  SweptFile,
} from "../../../src/anchor/host-interface.js";
import { SpawnFailed, StaleEpoch } from "../../../src/errors.js";
import { newRunId } from "../../../src/model/ids.js";
import { SimulatedLauncher } from "./launcher.js";
import { endProcess } from "./machine.js";
import { SimulatedObserver } from "./observer.js";
import { reap } from "./reap.js";
import type { SimulatedAnchor } from "./anchor.js";
import type { SimulatedConnection } from "./connection.js";
import type { SimulatedInstance, SimulatedRunDirectory } from "./state-directory.js";

const NO_RUN_FILES: RunFiles = { exit: null, leader: null, firstStop: null, swept: null };

/** Number of warm anchors: fewer than in the product, so that runs often find none. */
const WARM = 2;

interface WarmAnchor {
  readonly anchor: SimulatedAnchor;
  readonly link: AnchorLink;
  readonly connection: SimulatedConnection;
}

/** One supervisor's access to its machine: starts anchors, attaches to them, and changes run directories. */
export class SimulatedHost extends SimulatedObserver implements AnchorHost {
  readonly #warm = new Map<string, WarmAnchor>();
  /** The run id of the warm anchor that is being made. */
  #making: string | null = null;

  nextWarmRun(): string | null {
    for (const runId of this.#warm.keys()) return runId;
    return null;
  }

  /** Makes warm anchors in the background, one after the other. */
  #makeWarm(): void {
    if (this.#making !== null || this.#warm.size >= WARM) return;
    const runId = newRunId();
    this.#making = runId;
    void this.later<void>((resolve) => {
      const { launcher } = this.instance;
      if (launcher === null || this.by.gone || this.by.closing) {
        this.#making = null;
        return resolve();
      }
      const anchor = launcher.startWarm(runId);
      // Named here, and not only when it is printed: the order of the runs is part of the schedule.
      const { alias } = anchor;
      this.world.note(() => `an anchor waits for a run: ${alias}`);
      const connection = anchor.connect(this.by, 0, (link) => {
        if (connection === null) return;
        this.#making = null;
        this.#warm.set(runId, { anchor, link, connection });
        link.listen((event) => {
          if (event.type === "closed") this.#warm.delete(runId);
        });
      });
      this.#connected(connection);
      resolve();
    });
  }

  start(spec: StartSpec): Promise<AnchorLink> {
    this.#makeWarm();
    const warm = this.#warm.get(spec.runId);
    if (warm !== undefined) {
      const { anchor, link, connection } = warm;
      this.#warm.delete(spec.runId);
      this.world.watch.started(anchor, spec);
      connection.send({ type: "start", spec });
      const welcome = { ...link.welcome, highestEpoch: spec.epoch, kind: spec.policy.kind };
      return Promise.resolve(connection.renew(welcome));
    }
    return this.later((resolve, reject) => {
      if (spec.argv.includes("no-fork"))
        return this.answer(() => reject(new SpawnFailed(spec.runId, 11, "fork", "cannot start a process")));
      const launcher = this.instance.launcher ?? new SimulatedLauncher(this.world, this.instance, this.place);
      launcher.hold(this.by);
      const anchor = launcher.start(spec);
      this.world.watch.started(anchor, spec);
      this.#connected(anchor.connect(this.by, spec.epoch, resolve));
    });
  }

  attach(run: RunAddress, epoch: number): Promise<AnchorLink | null> {
    return this.later((resolve, reject) => {
      const anchor = this.directory.run(run)?.anchor ?? null;
      if (anchor === null || anchor.gone) return this.answer(() => resolve(null));
      if (anchor.held) return this.answer(() => reject(new Error("the anchor does not answer")));
      const connection = anchor.connect(this.by, epoch, resolve);
      if (connection === null)
        return this.answer(() => reject(new StaleEpoch(run.runId, anchor.highestEpoch)));
      this.#connected(connection);
    });
  }

  readRunFiles(run: RunAddress): Promise<RunFiles> {
    return this.ask(() => {
      const found = this.directory.run(run) ?? null;
      const warm = found === null ? this.#warmDirectory(run) : null;
      if (warm !== null && this.world.flaws.warmShowsNothing !== true)
        return { ...NO_RUN_FILES, swept: warm.swept, neverStarted: true };
      return found?.remains ?? NO_RUN_FILES;
    });
  }

  listRunIds(instanceId: string): Promise<readonly string[]> {
    const { warmLooksUsed = false } = this.world.flaws;
    return this.ask(() => {
      const found = this.directory.instances.get(instanceId);
      return [...(found?.runs.keys() ?? []), ...(warmLooksUsed ? (found?.warm.keys() ?? []) : [])];
    });
  }

  async listWarmRunIds(instanceId: string): Promise<readonly string[]> {
    const found = await this.ask(() => [...(this.directory.instances.get(instanceId)?.warm.keys() ?? [])]);
    // Compared after the listing, as in the product: a taken anchor belongs to a run of this supervisor.
    return found.filter((runId) => !this.#isOwnWarm(runId));
  }

  #isOwnWarm(runId: string): boolean {
    return this.#warm.has(runId) || this.#making === runId;
  }

  discardWarmAnchor(run: RunAddress): Promise<void> {
    return this.ask(() => {
      const found = this.#warmDirectory(run);
      if (found?.anchor?.gone !== true || this.#isOwnWarm(run.runId)) return;
      const { root, cgroup } = found.anchor;
      endProcess(this.world, root, 9);
      if (cgroup !== null) this.kernel.removeCgroup(cgroup);
      this.directory.instances.get(run.instanceId)?.warm.delete(run.runId);
    });
  }

  #warmDirectory({ instanceId, runId }: RunAddress): SimulatedRunDirectory | null {
    return this.directory.instances.get(instanceId)?.warm.get(runId) ?? null;
  }

  listRunCgroups(instanceId: string): Promise<readonly (CgroupRef & { readonly runId: string })[]> {
    return this.ask(() =>
      this.kernel.cgroups
        .filter((each) => each.instanceId === instanceId && this.#warmDirectory(each) === null)
        .map(({ path, inode, runId }) => ({ path, inode, runId })),
    );
  }

  removeInstance(instanceId: string): Promise<boolean> {
    return this.ask(() => {
      const found = this.directory.instances.get(instanceId);
      if (
        found === undefined ||
        found.locked ||
        found.runs.size > 0 ||
        found.warm.size > 0 ||
        found.launcher !== null
      )
        return false;
      return this.directory.instances.delete(instanceId);
    });
  }

  reap(request: ReapRequest): Promise<ReapResult> {
    return this.later((resolve, reject) => {
      if (this.kernel.listingFails)
        return this.answer(() => reject(new Error("process listing unavailable")));
      const runId = this.world.watch.runOfLease(request);
      reap(this.world, this.place, runId, request, (result) => this.answer(() => resolve(result)));
    });
  }

  writeStopFile(run: RunAddress, stop: FirstStop): Promise<FirstStop> {
    return this.ask(() => {
      const directory = this.directory.run(run);
      const { reason, actor, requestId } = directory?.firstStop ?? stop;
      if (directory !== null) directory.firstStop = { reason, actor, requestId, withoutAnchor: true };
      return { reason, actor, requestId };
    });
  }

  writeSweptFile(run: RunAddress, swept: SweptFile): Promise<void> {
    return this.ask(() => {
      const directory = this.directory.run(run);
      if (directory !== null) directory.swept = swept;
    });
  }

  removeRunDirectory({ instanceId, runId }: RunAddress): Promise<void> {
    return this.ask(() => {
      this.world.watch.discarded(runId);
      this.directory.instances.get(instanceId)?.runs.delete(runId);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.by.hangUpAll();
  }

  #connected(connection: ReturnType<NonNullable<SimulatedInstance["launcher"]>["start"]>["owner"]): void {
    if (connection === null) return;
    // The client may end before the anchor receives it.
    if (this.by.gone) connection.hangUp();
    else this.by.connections.add(connection);
  }
}
