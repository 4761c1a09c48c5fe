import { PROTOCOL } from "../../../src/anchor/protocol/messages.js";
import type {
  AnchorEvent,
  AnchorExit,
  AnchorHost,
  FirstStop,
  KnownAnchor,
  RunIdentities,
  SweptFile,
  AnchorLink,
  CgroupRef,
  CgroupState,
  LocalInstance,
  OutputSlice,
  PortEvidence,
  ProcessEvidence,
  ReapRequest,
  ReapResult,
  RunAddress,
  RunFiles,
  StartSpec,
  StopRequest,
  StreamName,
  TerminalSize,
  Welcome,
} from "../../../src/anchor/host.js";
import { REAPED_USAGE } from "../../../src/model/run.js";
import { StaleEpoch } from "../../../src/errors.js";

export const NO_RUN_FILES: RunFiles = { exit: null, leader: null, firstStop: null, swept: null };
const RANGE = { start: 0, end: 0, acked: 0, dropped: 0, closed: false };

/** One anchor with no process behind it. A test says what happens to it; it does by itself only what every anchor does. */
export class FakeAnchor {
  readonly runId: string;
  readonly links: FakeLink[] = [];
  readonly stops: StopRequest[] = [];
  welcome: Welcome;
  /** GO is answered with `started`, STOP with `stopping`. */
  autoReply = true;
  goCount = 0;
  answers = true;

  constructor(runId: string, epoch: number, pid: number) {
    this.runId = runId;
    this.welcome = {
      protocol: PROTOCOL,
      highestEpoch: epoch,
      phase: "gated",
      root: { pid, startTime: pid, uniqueId: String(pid) },
      anchor: { pid: pid + 1, startTime: pid, uniqueId: String(pid + 1) },
      boundary: { tier: "subreaper+unique", tierNote: null, cgroup: null, cgroupInode: null },
      stdout: RANGE,
      stderr: RANGE,
      stdinAccepted: 0,
      stdinLimit: 64 * 1024,
      stdinClosed: false,
      firstStop: null,
      leader: null,
      elapsedMs: null,
    };
  }

  connect(): FakeLink {
    const link = new FakeLink(this, this.welcome);
    this.links.push(link);
    return link;
  }

  emit(event: AnchorEvent): void {
    for (const link of [...this.links]) link.emit(event);
  }

  /** The connection breaks; the anchor lives. */
  disconnect(): void {
    for (const link of this.links.splice(0)) link.emit({ type: "closed" });
  }

  exitFacts(change: Partial<AnchorExit> = {}): AnchorExit {
    const { firstStop, phase, stdout, stderr } = this.welcome;
    return {
      runId: this.runId,
      executed: phase !== "gated",
      reason: firstStop?.reason ?? "exit",
      actor: firstStop?.actor ?? "",
      requestId: firstStop?.requestId ?? "",
      leader: { code: 0, signal: null },
      spawnError: null,
      residue: [],
      residueCount: 0,
      killMode: "none",
      tier: null,
      tierNote: null,
      emptiness: "proven",
      stdout: { start: 0, end: stdout.end, dropped: 0 },
      stderr: { start: 0, end: stderr.end, dropped: 0 },
      processes: 1,
      usage: { ...REAPED_USAGE, cpuMs: 1, peakKb: 1 },
      limitHit: null,
      durationMs: 1,
      endedAt: null,
      ...change,
    };
  }

  exit(change: Partial<AnchorExit> = {}): void {
    const exit = this.exitFacts(change);
    this.answers = false;
    this.emit({ type: "exited", exit });
    this.disconnect();
  }

  output(stream: StreamName, end: number): void {
    this.welcome = { ...this.welcome, [stream]: { ...this.welcome[stream], end } };
    this.emit({ type: "output", stream, start: 0, end, dropped: 0, closed: false });
  }

  go(): void {
    this.goCount++;
    if (!this.autoReply) return;
    this.welcome = { ...this.welcome, phase: "running" };
    this.emit({ type: "started" });
  }

  stop(stop: StopRequest): void {
    this.stops.push(stop);
    const firstStop = this.welcome.firstStop ?? stop;
    const phase = this.welcome.phase === "gated" ? "gated" : "exiting";
    this.welcome = { ...this.welcome, firstStop, phase };
    if (this.autoReply) this.emit({ type: "stopping", stop: firstStop });
  }
}

export class FakeLink implements AnchorLink {
  readonly welcome: Welcome;
  readonly sent: string[] = [];
  readonly #anchor: FakeAnchor;
  readonly #waiting: AnchorEvent[] = [];
  #listener: ((event: AnchorEvent) => void) | null = null;
  closed = false;

  constructor(anchor: FakeAnchor, welcome: Welcome) {
    this.#anchor = anchor;
    this.welcome = welcome;
  }

  listen(listener: (event: AnchorEvent) => void): void {
    this.#listener = listener;
    for (const event of this.#waiting.splice(0)) listener(event);
  }

  emit(event: AnchorEvent): void {
    if (this.#listener === null) this.#waiting.push(event);
    else this.#listener(event);
  }

  go(): void {
    if (!this.closed) this.#anchor.go();
  }

  stop(stop: StopRequest): void {
    if (!this.closed) this.#anchor.stop(stop);
  }

  write(offset: number, data: Uint8Array): void {
    this.sent.push(`write ${offset} ${Buffer.from(data).toString()}`);
  }

  closeStdin(offset: number): void {
    this.sent.push(`closeStdin ${offset}`);
  }

  resize({ rows, cols }: TerminalSize): void {
    this.sent.push(`resize ${rows} ${cols}`);
  }

  acknowledge(stream: StreamName, offset: number): void {
    this.sent.push(`ack ${stream} ${offset}`);
  }

  setPolicy(): void {
    this.sent.push("policy");
  }

  signal(): void {
    this.sent.push("signal");
  }

  requestMembers(requestId: string): void {
    this.sent.push(`members ${requestId}`);
  }

  adopt(runId: string): void {
    this.sent.push(`adopt ${runId}`);
  }

  requestStatus(): void {
    this.sent.push("status");
    // Of what it serves a test says itself when it is told; that it lives it says at once.
    const welcome = { ...this.#anchor.welcome, kind: "task" as const };
    queueMicrotask(() => {
      if (!this.closed && this.#anchor.answers) this.emit({ type: "status", welcome });
    });
  }

  heartbeat(): void {
    this.sent.push("heartbeat");
  }

  abandon(): void {
    this.sent.push("abandon");
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    const { links } = this.#anchor;
    if (links.includes(this)) links.splice(links.indexOf(this), 1);
    this.emit({ type: "closed" });
  }
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
  /** Pids that live. */
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
      return {
        identity,
        alive,
        matches: alive,
        state: alive ? "S" : "",
        parentPid: 0,
        processGroupId: 0,
        sessionId: 0,
        uid: 0,
        cgroup: null,
        command: "",
        argv: [],
        stdio: [],
        executable: null,
        leaseId: null,
        runId: null,
        instanceId: null,
        sessionKey: null,
        ancestors: [],
        descendants: [],
      };
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
    const remains = this.left.get(runId) ?? NO_RUN_FILES;
    const { reason, actor, requestId } = remains.firstStop ?? stop;
    this.left.set(runId, { ...remains, firstStop: { reason, actor, requestId, withoutAnchor: true } });
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
