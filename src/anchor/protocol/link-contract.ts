import type { ProcessIdentity, Survivor } from "../../model/process.js";
import type { RunLimits } from "../../model/run.js";
import type {
  AnchorExit,
  FirstStop,
  LeaderStatus,
  RunScope,
  SpawnFailure,
  StreamName,
} from "../run-dir/run-file-types.js";
import type { ProcessEvidence } from "../inspect/evidence-types.js";

export interface TerminalSize {
  readonly rows: number;
  readonly cols: number;
}

/** A full spool drops its oldest bytes, or blocks the program. */
export type SpoolPolicy = "keep-newest" | "back-pressure";

export interface SpoolSpec {
  readonly boundBytes: number;
  readonly policy: SpoolPolicy;
}

/** Everything an anchor needs to prepare one run. */
export interface StartSpec {
  readonly runId: string;
  readonly epoch: number;
  readonly argv: readonly string[];
  /** Only on Windows: the words after the first are joined with spaces, and not quoted. */
  readonly verbatim?: boolean;
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
  /** If absent, the run directory has no scope. */
  readonly scope?: RunScope;
}

export interface AnchorPolicy {
  readonly kind: "task" | "service";
  readonly onEscape: "fail" | "sweep";
  readonly graceMs: number;
  readonly settleMs: number;
  readonly drainMs: number;
  readonly killReportMs: number;
  /** Null for no deadline. */
  readonly overallMs: number | null;
  readonly noOutputMs: number | null;
  readonly ownerLossMs: number;
  /** How long after a deadline the anchor enforces it although an owner is connected. */
  readonly backstopMs: number;
}

export interface StopRequest {
  readonly reason: string;
  readonly actor: string;
  readonly requestId: string;
  /** Null for the run's own grace. A later stop can only shorten it. */
  readonly graceMs: number | null;
}

export interface SpoolRange {
  readonly start: number;
  readonly end: number;
  readonly acked: number;
  readonly dropped: number;
  readonly closed: boolean;
  /** The anchor does not read the stream now, because the limit is reached or the disk is full. */
  readonly withheld?: boolean;
}

export interface BoundaryFacts {
  readonly tier: string;
  readonly tierNote: string | null;
  readonly cgroup: string | null;
  readonly cgroupInode: string | null;
}

/** The state of an anchor: the answer to HELLO, START and STATUS. */
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
  /** A foreground client is connected to the anchor itself: the run ends with it, and needs no other caller. */
  readonly hasCaller?: boolean;
  readonly firstStop: FirstStop | null;
  readonly leader: LeaderStatus | null;
  /** Absent from an older anchor. */
  readonly kind?: AnchorPolicy["kind"];
  /** Time since the exec, on the anchor's monotonic clock; null before the exec, or from an older anchor. */
  readonly elapsedMs: number | null;
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
      /** Offset up to which the caller has acknowledged the stream, while one is connected to the anchor. */
      readonly acked?: number;
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
  /** Number of processes that were signalled. */
  | { readonly type: "signalled"; readonly count: number }
  | {
      readonly type: "members";
      readonly requestId: string;
      readonly processes: ProcessEvidence["descendants"];
    }
  /** A foreground client has connected to the anchor, or disconnected. */
  | { readonly type: "caller"; readonly connected: boolean }
  /** The answer to `requestStatus`. */
  | { readonly type: "status"; readonly welcome: Welcome }
  /** The connection is closed. Always the last event. */
  | { readonly type: "closed" };

/** Signals that processes of a continuing run can be sent. */
export type MemberSignal = "SIGTERM" | "SIGKILL" | "SIGSTOP" | "SIGCONT";

/** One connection to one anchor. Sending on a closed link does nothing: `closed` has been or will be reported. */
export interface AnchorLink {
  readonly welcome: Welcome;
  /** Sets the only listener. Buffered events are delivered first, in order. */
  listen(listener: (event: AnchorEvent) => void): void;
  go(): void;
  stop(stop: StopRequest): void;
  write(offset: number, data: Uint8Array): void;
  closeStdin(offset: number): void;
  resize(size: TerminalSize): void;
  acknowledge(stream: StreamName, offset: number): void;
  setPolicy(change: Partial<AnchorPolicy>): void;
  heartbeat(): void;
  /**
   * Moves a process of this run and its descendants into a run of their own. Answered with `adopted`, or refused
   * (`adopt-…`).
   */
  adopt(runId: string, root: ProcessIdentity, graceMs: number, scope?: RunScope): void;
  /** Signals some processes of the run. Answered with `signalled`, or refused (`signal-…`). */
  signal(processes: readonly ProcessIdentity[], signal: MemberSignal): void;
  /** Requests the live processes of the run. Answered with `members` and the same id. */
  requestMembers(requestId: string): void;
  /** Requests the state. The answer comes as an event, after all earlier requests were handled. */
  requestStatus(): void;
  /**
   * Abandons processes that survived KILL: the anchor ends the run as `lost`, unproven. Refused (`bad-phase`) if there
   * are no survivors.
   */
  abandon(by: { readonly actor: string; readonly requestId: string }): void;
  /** Closes the connection. If this was the owner, the anchor treats it as the loss of its owner. */
  close(): void;
}
