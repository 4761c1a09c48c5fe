import type { MachineIdentity, Survivor, ProcessIdentity, Residue } from "../model/process.js";
import type { Emptiness, KillMode, LimitHit, RunLimits, RunUsage } from "../model/run.js";

/** Where a run's directory is: with the instance that started it, whoever owns the run now. */
export interface RunAddress {
  readonly instanceId: string;
  readonly runId: string;
}

/** An instance whose directory lies under this state directory. Dead: nobody holds its lock. */
export interface LocalInstance {
  readonly instanceId: string;
  readonly alive: boolean;
  /** Its launcher listens: what dead anchors leave is being killed, and `swept.json` will say so. */
  readonly launched: boolean;
}

export type StreamName = "stdout" | "stderr";

/** What a stream's spool does when it is full: forget the oldest bytes, or let the program wait. */
export type SpoolPolicy = "keep-newest" | "back-pressure";

export interface SpoolSpec {
  readonly boundBytes: number;
  readonly policy: SpoolPolicy;
}

/** Everything an anchor needs to know to prepare one run. */
export interface StartSpec {
  readonly runId: string;
  readonly epoch: number;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly umask: number | null;
  readonly io: "pipe" | "pty";
  readonly size: TerminalSize;
  readonly merge: boolean;
  readonly stdin: "pipe" | "null";
  readonly stdout: SpoolSpec;
  readonly stderr: SpoolSpec;
  readonly policy: AnchorPolicy;
  readonly limits: RunLimits;
  /** Absent: the run directory has no scope. */
  readonly scope?: RunScope;
}

/**
 * What a run directory says about its run (`scope` in `anchor.json`), so that a run can be found by session, agent, label
 * or task when the store cannot be read. It selects runs; it proves nothing about processes.
 */
export interface RunScope {
  readonly sessionKey: string | null;
  readonly sessionId: string | null;
  readonly backendId: string | null;
  readonly agentId: string | null;
  readonly taskId: string | null;
  readonly labels: Readonly<Record<string, string>>;
  readonly kind: AnchorPolicy["kind"];
  /** Display command, redacted. */
  readonly command: string;
}

/** What the directory of a run says: its scope, and the tasks that were given to it since. */
export interface DirectoryScope extends Omit<RunScope, "taskId" | "kind"> {
  /** Null: an older anchor wrote the directory, and the run may have become a service since its start. */
  readonly kind: AnchorPolicy["kind"] | null;
  readonly taskIds: readonly string[];
}

export interface TerminalSize {
  readonly rows: number;
  readonly cols: number;
}

export interface AnchorPolicy {
  readonly kind: "task" | "service";
  readonly onEscape: "fail" | "sweep";
  readonly graceMs: number;
  readonly settleMs: number;
  readonly drainMs: number;
  readonly killReportMs: number;
  /** Null: no such deadline. */
  readonly overallMs: number | null;
  readonly noOutputMs: number | null;
  readonly ownerLossMs: number;
  /** How long after a deadline the anchor acts although an owner is connected. */
  readonly backstopMs: number;
}

export interface StopRequest {
  readonly reason: string;
  readonly actor: string;
  readonly requestId: string;
  /** Null: the run's own grace. A later stop can only shorten it. */
  readonly graceMs: number | null;
}

export interface FirstStop {
  readonly reason: string;
  readonly actor: string;
  readonly requestId: string;
}

/** `stop.json` */
export interface StopFile extends FirstStop {
  /** The anchor did not answer when this stop was due, so the run was to be ended without it. */
  readonly withoutAnchor?: boolean;
}

export type LeaderStatus =
  | { readonly code: number; readonly signal: null }
  | { readonly code: null; readonly signal: number };

export interface SpoolRange {
  readonly start: number;
  readonly end: number;
  readonly acked: number;
  readonly dropped: number;
  readonly closed: boolean;
  /** The anchor does not read it now: the bound or the disk is full. */
  readonly withheld?: boolean;
}

export interface BoundaryFacts {
  readonly tier: string;
  readonly tierNote: string | null;
  readonly cgroup: string | null;
  readonly cgroupInode: string | null;
}

/** The whole state of an anchor, as it answers HELLO, START and STATUS. */
export interface Welcome {
  readonly protocol: number;
  readonly highestEpoch: number;
  readonly phase: "gated" | "running" | "exiting";
  readonly root: ProcessIdentity;
  readonly anchor: ProcessIdentity;
  readonly boundary: BoundaryFacts;
  readonly stdout: SpoolRange;
  readonly stderr: SpoolRange;
  readonly stdinAccepted: number;
  readonly stdinLimit: number;
  readonly stdinClosed: boolean;
  readonly firstStop: FirstStop | null;
  readonly leader: LeaderStatus | null;
  /** Absent: an older anchor does not say. */
  readonly kind?: AnchorPolicy["kind"];
  /** Since the exec, on the anchor's monotonic clock; null before it, or when the anchor does not say. */
  readonly elapsedMs: number | null;
}

export interface SpawnFailure {
  readonly errno: number;
  readonly step: string;
  readonly message: string;
}

/** What an anchor kept of a stream when it left. */
export interface SpoolEnd {
  readonly start: number;
  readonly end: number;
  readonly dropped: number;
  /** Bytes that were written and are missing: a spool file was truncated or removed. Absent: none. */
  readonly lost?: number;
}

/** The content of `exit.json`. */
export interface AnchorExit {
  readonly runId: string;
  readonly executed: boolean;
  readonly reason: string;
  readonly actor: string;
  readonly requestId: string;
  readonly leader: LeaderStatus | null;
  readonly spawnError: SpawnFailure | null;
  readonly residue: readonly Residue[];
  readonly residueCount: number;
  /** Processes that were ended besides the leader, by TERM or KILL. Not said by an older anchor. */
  readonly cleaned?: number | null;
  readonly killMode: KillMode;
  /** As it was at the end: a launcher that died on the way has made it weaker. Null: not said. */
  readonly tier: string | null;
  readonly tierNote: string | null;
  /** `unproven` only when an operator abandoned it (reason `lost`): the residue names who was left. */
  readonly emptiness: Emptiness;
  readonly stdout: SpoolEnd;
  readonly stderr: SpoolEnd;
  readonly processes: number;
  readonly usage: Omit<RunUsage, "processes">;
  readonly limitHit: LimitHit | null;
  readonly durationMs: number;
  /** Wall-clock milliseconds; null: not said. */
  readonly endedAt: number | null;
  /** When its spools were last written, where the end was read from its directory. */
  readonly lastOutputAt?: number | null;
}

export type AnchorEvent =
  | { readonly type: "started" }
  | { readonly type: "failed"; readonly failure: SpawnFailure }
  | {
      readonly type: "output";
      readonly stream: StreamName;
      readonly start: number;
      readonly end: number;
      readonly dropped: number;
      /** As in `SpoolEnd`. */
      readonly lost?: number;
      readonly closed: boolean;
      readonly withheld?: boolean;
    }
  | { readonly type: "stdin"; readonly accepted: number; readonly limit: number; readonly closed: boolean }
  | { readonly type: "leader"; readonly status: LeaderStatus }
  | { readonly type: "stopping"; readonly stop: FirstStop }
  | { readonly type: "survivors"; readonly survivors: readonly Survivor[] }
  | { readonly type: "exited"; readonly exit: AnchorExit }
  | {
      readonly type: "refused";
      readonly code: string;
      readonly message: string;
      readonly epoch: number | null;
    }
  | { readonly type: "adopted"; readonly runId: string }
  /** How many processes were signalled. */
  | { readonly type: "signalled"; readonly count: number }
  | {
      readonly type: "members";
      readonly requestId: string;
      readonly processes: ProcessEvidence["descendants"];
    }
  /** The answer to `status()`. */
  | { readonly type: "status"; readonly welcome: Welcome }
  /** The connection is gone. Always the last event. */
  | { readonly type: "closed" };

/** One connection to one anchor. Sending on a closed link is a no-op: `closed` has been or will be reported. */
/** What processes of a run that goes on can be sent. */
export type MemberSignal = "SIGTERM" | "SIGKILL" | "SIGSTOP" | "SIGCONT";

export interface AnchorLink {
  readonly welcome: Welcome;
  /** Events that came before this call are delivered to the listener first, in order. One listener. */
  listen(listener: (event: AnchorEvent) => void): void;
  go(): void;
  stop(stop: StopRequest): void;
  write(offset: number, data: Uint8Array): void;
  closeStdin(offset: number): void;
  resize(size: TerminalSize): void;
  acknowledge(stream: StreamName, offset: number): void;
  setPolicy(change: Partial<AnchorPolicy>): void;
  heartbeat(): void;
  /** Make a run of its own of a process of this run and all below it. Answered with `adopted`, or refused (`adopt-…`). */
  adopt(runId: string, root: ProcessIdentity, graceMs: number, scope?: RunScope): void;
  /** Signal some of its processes. Answered with `signalled`, or refused (`signal-…`). */
  signal(processes: readonly ProcessIdentity[], signal: MemberSignal): void;
  /** Ask who lives in it. Answered with `members`, under the same id. */
  requestMembers(requestId: string): void;
  /** Ask how things stand; the answer comes as an event, after all that was said before it was obeyed. */
  requestStatus(): void;
  /** Give up on what survived its KILL: the anchor ends the run as `lost`, unproven. Refused (`bad-phase`) unless there are survivors. */
  abandon(by: { readonly actor: string; readonly requestId: string }): void;
  /** Leave without a word: to the anchor this is owner loss, if this was the owner. */
  close(): void;
}

export interface OutputSlice {
  /**
   * Offset of the first byte of `bytes`: above the one asked for when older bytes were dropped, or are lost. Without any
   * bytes: everything before it is lost, and there is nothing after it now.
   */
  readonly offset: number;
  readonly bytes: Uint8Array;
  /** How many bytes before `offset` are missing because a spool file was truncated or removed. Absent: none. */
  readonly lost?: number;
}

export interface ProcessEvidence {
  readonly identity: ProcessIdentity;
  /** Runs something: false for a zombie, unless only its first thread has ended. */
  readonly alive: boolean;
  /** Live evidence equals the identity that was asked for (true when only a pid was given and it lives). */
  readonly matches: boolean;
  readonly state: string;
  readonly parentPid: number;
  readonly processGroupId: number;
  readonly sessionId: number;
  readonly uid: number;
  readonly cgroup: string | null;
  readonly command: string;
  /** Its command line, bounded; empty when it cannot be read. */
  readonly argv: readonly string[];
  /** What stdin, stdout and stderr lead to, as in /proc; null: closed, or it cannot be read. */
  readonly stdio: readonly (string | null)[];
  /** The file it executes; null when it cannot be read. */
  readonly executable: string | null;
  readonly leaseId: string | null;
  readonly runId: string | null;
  readonly instanceId: string | null;
  readonly sessionKey: string | null;
  /** CPU time used so far and resident memory; absent: not said. */
  readonly cpuMs?: number;
  readonly rssKb?: number;
  /** Parent first, up to the first process of the namespace. */
  readonly ancestors: readonly ProcessIdentity[];
  readonly descendants: readonly {
    readonly identity: ProcessIdentity;
    readonly parentPid: number;
    readonly sessionId: number;
    readonly command: string;
    readonly state: string;
    /** Used so far, and resident now. */
    readonly cpuMs: number;
    readonly rssKb: number;
    /** TCP ports it listens on, as it sees the network. Only when they were asked for. */
    readonly ports: readonly number[];
  }[];
}

export interface InspectOptions {
  /** Only whether it is the one, and its own numbers: no descendants, ancestors, environment or command line. */
  readonly brief?: boolean;
  /** Also the TCP ports that descendants listen on, as far as their descriptors may be read. */
  readonly ports?: boolean;
}

/** Who listens on a TCP port, as this process sees the network. Open without holders: it cannot be seen whose it is. */
export interface PortEvidence {
  readonly open: boolean;
  readonly holders: readonly { readonly identity: ProcessIdentity; readonly command: string }[];
}

export interface CgroupRef {
  readonly path: string;
  readonly inode: string;
}

/** `gone`: the path is not there, or is another cgroup now; the kernel removes only empty ones. `unknown`: it cannot be seen from here. */
export type CgroupState = "populated" | "empty" | "gone" | "unknown";

export interface ReapRequest {
  readonly root: ProcessIdentity | null;
  readonly cgroup: CgroupRef | null;
  readonly leaseId: string | null;
  readonly graceMs: number;
  /** An anchor that does not answer and serves no other run: everything below it is ended, then the anchor itself. */
  readonly anchor?: KnownAnchor | null;
  /** First processes of other runs of the same anchor: they and everything below them are not touched. Not with `anchor`. */
  readonly spared?: readonly ProcessIdentity[];
}

/** An anchor, with the second fact that is needed where the kernel has no unique ids. */
export interface KnownAnchor {
  readonly identity: ProcessIdentity;
  /** The file it was started from. */
  readonly path: string;
}

export interface ReapResult {
  /** False: live evidence did not match; nothing was signalled. */
  readonly verified: boolean;
  readonly why: string;
  readonly killed: number;
  readonly killMode: KillMode;
  /** Who was ended besides the root, as far as they are named (at most 64). */
  readonly residue: readonly Residue[];
  readonly survivors: readonly Survivor[];
  readonly emptiness: Emptiness;
  /** What became of the anchor that was named. `kept`: something below it still lives. Null: none was named or verified. */
  readonly anchor?: "killed" | "kept" | "gone" | null;
}

/** `anchor.json`: what an anchor wrote about itself and the run. */
export interface RunIdentities {
  readonly anchor: ProcessIdentity;
  /** Null: there was none yet. */
  readonly root: ProcessIdentity | null;
  readonly cgroup: CgroupRef | null;
}

/** What `swept.json` says: the launcher cleaned up after a dead anchor. */
export interface SweptFile {
  readonly anchorSignal: number | null;
  readonly killed: number;
  readonly killMode: KillMode;
  readonly emptiness: "proven" | "unproven";
}

/** `silent.json`: the launcher found that an anchor did not run while no supervisor was connected. */
export interface SilentFile {
  /** Wall-clock milliseconds. */
  readonly at: number;
  readonly silentMs: number;
  readonly continued: boolean;
}

/** What is left of a run on disk when nobody answers its socket. */
export interface RunFiles {
  readonly exit: AnchorExit | null;
  readonly leader: LeaderStatus | null;
  readonly firstStop: StopFile | null;
  readonly swept: SweptFile | null;
}

/**
 * The only way to start, inspect or signal a process. The native host talks to the anchor binary;
 * a simulated one has processes, crashes and clocks of its own.
 */
export interface AnchorHost extends AsyncDisposable {
  readonly machine: MachineIdentity;
  readonly anchorPath: string;
  /** Prepare a run: resolves with the gate closed. Rejects with SpawnFailed when it cannot be. */
  start(spec: StartSpec): Promise<AnchorLink>;
  /**
   * Null when no anchor listens. Rejects with StaleEpoch when a higher epoch has been seen, with AnchorUnusable when it
   * does not answer within `withinMs`. Epoch 0 observes.
   */
  attach(run: RunAddress, epoch: number, withinMs?: number): Promise<AnchorLink | null>;
  /** Bytes of a spool by offset; consumes nothing. Empty when there is nothing at or after `offset`. */
  readOutput(run: RunAddress, stream: StreamName, offset: number, maxBytes: number): Promise<OutputSlice>;
  readRunFiles(run: RunAddress): Promise<RunFiles>;
  /** All instances of this state directory, this one included. */
  listInstances(): Promise<readonly LocalInstance[]>;
  /** Ids of all run directories of an instance. */
  listRunIds(instanceId: string): Promise<readonly string[]>;
  /** Cgroups of runs of an instance, provably made for this very directory. */
  listRunCgroups(instanceId: string): Promise<readonly (CgroupRef & { readonly runId: string })[]>;
  /** Remove a dead instance's directory, if no run directory is left in it. False: it stays. */
  removeInstance(instanceId: string): Promise<boolean>;
  /** Rejects when processes cannot be looked at here; then nothing may be concluded. */
  inspectProcesses(
    wanted: readonly (ProcessIdentity | number)[],
    options?: InspectOptions,
  ): Promise<readonly ProcessEvidence[]>;
  /** Which of these lease ids a live process carries as its marker. An empty cgroup says nothing of who has left it. */
  findMarkedLeases(leaseIds: readonly string[]): Promise<ReadonlySet<string>>;
  inspectPort(port: number): Promise<PortEvidence>;
  inspectCgroups(wanted: readonly CgroupRef[]): Promise<readonly CgroupState[]>;
  reap(request: ReapRequest): Promise<ReapResult>;
  /** From the run's directory. Null: nothing readable is there. */
  readIdentities(run: RunAddress): Promise<RunIdentities | null>;
  /** Send SIGCONT to a verified anchor. A sentence says why it was not sent; null: it was. */
  continueAnchor(anchor: KnownAnchor): Promise<string | null>;
  /**
   * Write `stop.json` before a run is ended without its anchor. The supervisor that records the end takes
   * the reason from it. A stop that the anchor had accepted keeps its reason. Resolves with the stop in effect.
   */
  writeStopFile(run: RunAddress, stop: FirstStop): Promise<FirstStop>;
  /** Write `swept.json` for a run that was ended without its anchor. */
  writeSweptFile(run: RunAddress, swept: SweptFile): Promise<void>;
  /** Read and remove `silent.json`, written by the launcher. */
  takeSilentFile(run: RunAddress): Promise<SilentFile | null>;
  /** Bytes in the run's directory. */
  directorySize(run: RunAddress): Promise<number>;
  /** Remove the run's directory. Only after its terminal record is committed. */
  removeRunDirectory(run: RunAddress): Promise<void>;
}
