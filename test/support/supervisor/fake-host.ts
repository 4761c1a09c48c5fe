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
  StreamName,
  SweptFile,
} from "../../../src/anchor/host-interface.js";
import { goneEvidence } from "../../../src/anchor/inspect/processes.js";
import { StaleEpoch } from "../../../src/errors.js";
import { FakeAnchor } from "./fake-anchor.js";

export const NO_RUN_FILES: RunFiles = { exit: null, leader: null, firstStop: null, swept: null };

export function processEvidence(
  change: Pick<ProcessEvidence, "identity"> & Partial<ProcessEvidence>,
): ProcessEvidence {
  return { ...goneEvidence(change.identity), alive: true, matches: true, state: "S", ...change };
}

export class FakeHost implements AnchorHost {
  readonly machine = { hostId: "host", bootId: "boot", pidNamespace: "pid:[1]", timeNamespace: null };
  readonly anchorPath = "/nowhere/anchor";
  readonly anchors = new Map<string, FakeAnchor>();
  readonly left = new Map<string, RunFiles>();
  readonly spools = new Map<string, Buffer>();
  readonly discarded: string[] = [];
  readonly reaped: ReapRequest[] = [];
  readonly specs: StartSpec[] = [];
  /** The epochs of all connections made by attaching. */
  readonly attached: number[] = [];
  reapResult: ReapResult = {
    verified: true,
    why: "",
    killed: 2,
    killMode: "pid",
    residue: [],
    survivors: [],
    emptiness: "proven",
  };
  locals: LocalInstance[] = [{ instanceId: "in_test", alive: true, launched: true }];
  readonly cgroups = new Map<string, CgroupState>();
  /** Pids of live processes. */
  readonly alive = new Set<number>();
  prepare: (anchor: FakeAnchor) => void = () => undefined;
  failStart: Error | null = null;
  #nextPid = 1000;

  get last(): FakeAnchor {
    const anchor = [...this.anchors.values()].at(-1);
    if (anchor === undefined) throw new Error("nothing was started");
    return anchor;
  }

  async start(spec: StartSpec): Promise<AnchorLink> {
    this.specs.push(spec);
    if (this.failStart !== null) throw this.failStart;
    const anchor = new FakeAnchor(spec.runId, spec.epoch, (this.#nextPid += 10));
    this.anchors.set(spec.runId, anchor);
    const link = anchor.connect();
    this.prepare(anchor);
    return link;
  }

  async attach({ runId }: RunAddress, epoch: number): Promise<AnchorLink | null> {
    const anchor = this.anchors.get(runId);
    if (anchor === undefined || !anchor.answers) return null;
    this.attached.push(epoch);
    if (epoch > 0) {
      const { highestEpoch } = anchor.welcome;
      if (epoch <= highestEpoch) throw new StaleEpoch(runId, highestEpoch);
      anchor.welcome = { ...anchor.welcome, highestEpoch: epoch };
    }
    return anchor.connect();
  }

  async readOutput(
    { runId }: RunAddress,
    stream: StreamName,
    offset: number,
    maxBytes: number,
  ): Promise<OutputSlice> {
    const spool = this.spools.get(`${runId} ${stream}`) ?? Buffer.alloc(0);
    return { offset, bytes: spool.subarray(offset, offset + maxBytes) };
  }

  async readRunFiles({ runId }: RunAddress): Promise<RunFiles> {
    return this.left.get(runId) ?? NO_RUN_FILES;
  }

  async listRunIds(): Promise<readonly string[]> {
    return [...new Set([...this.anchors.keys(), ...this.left.keys()])];
  }

  async listInstances(): Promise<readonly LocalInstance[]> {
    return this.locals;
  }

  async listRunCgroups(): Promise<readonly []> {
    return [];
  }

  nextWarmRun(): null {
    return null;
  }

  async listWarmRunIds(): Promise<readonly string[]> {
    return [];
  }

  async discardWarmAnchor(): Promise<void> {}

  async removeInstance(): Promise<boolean> {
    return false;
  }

  async inspectPort(): Promise<PortEvidence> {
    return { open: false, holders: [] };
  }

  async inspectCgroups(wanted: readonly CgroupRef[]): Promise<readonly CgroupState[]> {
    return wanted.map(({ path }) => this.cgroups.get(path) ?? "gone");
  }

  readonly markers = new Set<string>();
  async findMarkedLeases(leaseIds: readonly string[]): Promise<ReadonlySet<string>> {
    return new Set(leaseIds.filter((leaseId) => this.markers.has(leaseId)));
  }

  async directorySize(): Promise<number> {
    return 0;
  }

  async inspectProcesses(
    wanted: Parameters<AnchorHost["inspectProcesses"]>[0],
  ): Promise<readonly ProcessEvidence[]> {
    return wanted.map((each) => {
      const identity = typeof each === "number" ? { pid: each, startTime: 0, uniqueId: null } : each;
      const alive =
        this.alive.has(identity.pid) ||
        [...this.anchors.values()].some(
          ({ answers, welcome }) => answers && welcome.anchor.pid === identity.pid,
        );
      return processEvidence({ identity, alive, matches: alive, state: alive ? "S" : "" });
    });
  }

  async reap(request: ReapRequest): Promise<ReapResult> {
    this.reaped.push(request);
    return this.reapResult;
  }

  async readIdentities({ runId }: RunAddress): Promise<RunIdentities | null> {
    const anchor = this.anchors.get(runId);
    return anchor === undefined
      ? null
      : { anchor: anchor.welcome.anchor, root: anchor.welcome.root, cgroup: null };
  }

  async listOpenRunDirectories(): Promise<readonly string[]> {
    return [];
  }

  /** Anchors that were sent SIGCONT. */
  readonly continued: KnownAnchor[] = [];
  async continueAnchor(anchor: KnownAnchor): Promise<string | null> {
    this.continued.push(anchor);
    return null;
  }

  async takeSilentFile(): Promise<null> {
    return null;
  }

  async writeStopFile({ runId }: RunAddress, stop: FirstStop): Promise<FirstStop> {
    const files = this.left.get(runId) ?? NO_RUN_FILES;
    const { reason, actor, requestId } = files.firstStop ?? stop;
    this.left.set(runId, { ...files, firstStop: { reason, actor, requestId, withoutAnchor: true } });
    return { reason, actor, requestId };
  }

  async writeSweptFile({ runId }: RunAddress, swept: SweptFile): Promise<void> {
    this.left.set(runId, { ...(this.left.get(runId) ?? NO_RUN_FILES), swept });
  }

  async removeRunDirectory({ runId }: RunAddress): Promise<void> {
    this.discarded.push(runId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const anchor of this.anchors.values()) for (const link of [...anchor.links]) link.close();
  }
}
