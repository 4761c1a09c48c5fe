import type {
  AnchorEvent,
  AnchorExit,
  AnchorLink,
  StopRequest,
  StreamName,
  TerminalSize,
  Welcome,
} from "../../../src/anchor/host-interface.js";
import { PROTOCOL } from "../../../src/anchor/protocol/messages.js";
import { REAPED_USAGE } from "../../../src/model/run.js";

const RANGE = { start: 0, end: 0, acked: 0, dropped: 0, closed: false };

/** An anchor without a process. The test drives it; it answers by itself only as every anchor does. */
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

  /** Breaks the connections; the anchor stays alive. */
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

class FakeLink implements AnchorLink {
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
    // The test itself confirms a change to a service.
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
