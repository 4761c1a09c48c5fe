import type {
  AnchorEvent,
  AnchorHost,
  AnchorLink,
  FirstStop,
  RunAddress,
  SpawnFailure,
  StopRequest,
  StreamName,
  TerminalSize,
} from "../../anchor/host-interface.js";
import type { LiveProcesses } from "../../anchor/inspect/processes.js";
import type { StartAttempt } from "../../anchor/protocol/errors.js";
import type { Clock, Timer } from "../../async/clock.js";
import type { Deferred } from "../../async/deferred.js";
import { type HoldfastError, NotSteering } from "../../errors.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunDeadlines, RunPolicy, RunRecord, ServiceFacts } from "../../model/run.js";
import type { RunCopy } from "../../store/local-copy/run-copy.js";
import type { RunStore } from "../../store/runs/contract.js";
import type { Problem } from "../api.js";
import type { Deadlines } from "./deadlines.js";
import type { OutputRanges } from "./output-ranges.js";
import type { LastOutput } from "./last-output.js";
import type { RecordedIdentity } from "./recorded-identity.js";
import type { RunState } from "./state-machine.js";
import type { Stdin } from "./stdin.js";
import type { StoreCircuitBreaker } from "./store-circuit-breaker.js";
import type { RunWriteQueue } from "./store-write-queue.js";

/** When an anchor last answered, and what was done about its silence. Times are on the monotonic clock. */
interface AnchorLiveness {
  lastMessageAt: number;
  /** When the unanswered STATUS was sent; null: there is none. */
  statusSentAt: number | null;
  /** When it was sent SIGCONT without an answer since; null: it answers, as far as known. */
  continuedAt: number | null;
  /** When this supervisor sent the first stop. */
  stopSentAt: number | null;
  /** How many times the anchor stopped answering after the stop. */
  silencesAfterStop: number;
  /** True while `handleUnresponsiveAnchor` runs. */
  handling: boolean;
  /** When the silence was last reported. */
  reportedAt: number;
}

export function initialAnchorLiveness(now: number): AnchorLiveness {
  return {
    lastMessageAt: now,
    statusSentAt: null,
    continuedAt: null,
    stopSentAt: null,
    silencesAfterStop: 0,
    handling: false,
    reportedAt: -Infinity,
  };
}

/** Call for each message of the anchor. */
export function recordAnchorAnswer(live: LiveRun): void {
  const { anchorLiveness: liveness, context } = live;
  liveness.lastMessageAt = context.clock.now();
  liveness.statusSentAt = null;
  if (liveness.continuedAt === null) return;
  const silentMs = Math.round(liveness.lastMessageAt - liveness.continuedAt);
  liveness.continuedAt = null;
  const at = context.clock.wall();
  live.writeQueue.enqueue(null, [{ ...runEventBase(live, at), type: "anchor-answers", data: { silentMs } }]);
}

/** Call when a stop was sent: the anchor must answer it. */
export function expectAnchorAnswer(live: LiveRun): void {
  live.anchorLiveness.stopSentAt ??= live.context.clock.now();
  live.context.anchorMonitor.checkSoon();
}

/** `actor` null: the runs keep running under their anchors. */
export interface CloseRequest {
  readonly actor: string | null;
}

/** The part of the LeaseRenewer that runs use. */
interface LeaseStatus {
  /** True: the leases were not renewed in time, so no run may be controlled now. */
  readonly fenced: boolean;
  renew(): Promise<void>;
  onLeaseAcquired(): void;
}

/** The part of the Incarnation that runs use. */
interface IncarnationStatus {
  isCurrent(): Promise<boolean>;
  markTaken(evidence: string): void;
}

/** The part of the AnchorMonitor that runs use. */
interface AnchorMonitorHandle {
  checkSoon(): void;
}

/** The parts that all runs of one supervisor share. */
export interface SupervisorContext {
  readonly clock: Clock;
  readonly store: RunStore;
  /** Null: the store belongs to this state directory alone, so it cannot be rolled back without the directory. */
  readonly localCopy: RunCopy | null;
  readonly host: AnchorHost;
  readonly instanceId: string;
  /** Id of the state directory; null: there is only one. */
  readonly stateId: string | null;
  /** The default actor of stops and adoptions. */
  readonly actor: string;
  readonly discardOutput: boolean;
  /** Variables of this process that runs do not inherit. */
  readonly withheldEnv: readonly string[];
  readonly leases: LeaseStatus;
  readonly incarnation: IncarnationStatus;
  /** Distinguishes this process from others of the same instance. */
  readonly incarnationId: string;
  readonly anchorMonitor: AnchorMonitorHandle;
  readonly storeBreaker: StoreCircuitBreaker;
  /** How long start and stop of a command wait to be recorded together with its end. */
  readonly waitForEndMs: number;
  /** Runs whose end is not committed yet. */
  readonly runs: Map<string, LiveRun>;
  /** Runs whose record is not inserted yet: reconciliation skips them, whether the record is committed or not. */
  readonly inserting: Set<string>;
  /** Set once, by `close`: it also applies to a run that is just being started. */
  closing: CloseRequest | null;
  /** A run was detached before its end and before `close`: another supervisor may own it. */
  hasLostRuns: boolean;
  /** The store may have been rolled back since its records were last compared with the local copy. */
  storeMayHaveRolledBack: boolean;
  /** Generation of the store at that comparison. */
  comparedGeneration: number;
  /** Directories (by run id) and cgroups (by path) of ended runs that need no further check. */
  readonly cleanedUp: Set<string>;
  report(problem: Problem): void;
  /** Background work. A failure is reported, and `close` waits for it. */
  track(runId: string, work: Promise<void>): void;
}

/** The constant facts of a run. */
export interface RunFacts {
  readonly runId: string;
  readonly address: RunAddress;
  readonly leaseId: string;
  /** For display, with secrets redacted. */
  readonly command: string;
  /** The start options; null: another supervisor started the run. Not stored. */
  readonly attempt: StartAttempt | null;
  readonly policy: RunPolicy;
  readonly deadlines: RunDeadlines;
  /** As the run began under this supervisor. */
  readonly service: ServiceFacts | null;
  /** Unacknowledged bytes at which the anchor stops reading; null: never. */
  readonly withholdAt: Readonly<Record<StreamName, number | null>>;
}

/** The state of a run that this supervisor owns. */
export interface LiveRun {
  readonly context: SupervisorContext;
  readonly facts: RunFacts;
  readonly writeQueue: RunWriteQueue;
  readonly deadlines: Deadlines;
  readonly stdin: Stdin;
  readonly outputRanges: OutputRanges;
  readonly lastOutput: LastOutput;
  /** Resolves when the record is in the store, or the run is detached without a record. */
  readonly recorded: Deferred<void>;
  /** Resolves when the command was executed, or never will be. */
  readonly started: Deferred<void>;
  /** Resolves when the end is known, with the time on the monotonic clock. */
  readonly endKnown: Deferred<number>;
  /** Resolves when the terminal record is committed. */
  readonly ended: Deferred<RunRecord>;
  readonly listener: (link: AnchorLink, event: AnchorEvent) => void;
  state: RunState;
  /** When the command was executed, and whether the record says so. */
  startedAt: { readonly at: number; readonly recorded: boolean } | null;
  link: AnchorLink | null;
  /** False: the connection only observes; it can stop the run but not control it. */
  isOwner: boolean;
  tier: string | null;
  /** A foreground client is connected to the anchor itself, which stops the run when the client is gone. */
  hasCaller: boolean;
  /** Null: a task. */
  service: ServiceFacts | null;
  /** Set until the anchor confirms that the run is a service. */
  serviceAck: Deferred<void> | null;
  /** Set while the adoption of one of its processes is not answered. */
  pendingAdoption: Deferred<void> | null;
  /** Set while a request to signal members is not answered. */
  pendingSignal: Deferred<number> | null;
  /** Unanswered requests for the members, by request id. */
  readonly memberRequests: Map<string, Deferred<LiveProcesses | null>>;
  /** For the case that the anchor does not answer. */
  recordedIdentity: RecordedIdentity;
  readonly anchorLiveness: AnchorLiveness;
  firstStop: FirstStop | null;
  /** Why the command was not executed, if this supervisor knows. */
  failure: SpawnFailure | null;
  /** The first stop requested here. It is sent again if the connection breaks before it arrives. */
  requestedStop: StopRequest | null;
  /** Stops to send on the next connection. */
  pendingStops: StopRequest[];
  pendingStopsSent: Deferred<void> | null;
  stopRecorded: boolean;
  survivorsRecorded: boolean;
  exitingTimer: Timer | null;
  /** As the anchor says: what it does not read now. */
  withheld: Record<StreamName, boolean>;
  /** Bytes of output that are recorded as missing. */
  lostBytes: Record<StreamName, number>;
  size: TerminalSize | null;
  descendants: number;
  reattaching: boolean;
  finalizing: boolean;
  /** Why this supervisor detached from the run; null: it has not. */
  detachedBy: HoldfastError | null;
  followers: number;
  /** A caller has followed the output to its end, or knows the end of the run. */
  outputSeen: boolean;
  discarded: boolean;
  removeAbortListener: (() => void) | null;
}

export function isInactive(live: LiveRun): boolean {
  return live.finalizing || live.detachedBy !== null;
}

export type RunEventBase = Pick<NewRunEvent, "runId" | "at" | "rootPid" | "descendants">;

export function runEventBase(live: LiveRun, at: number): RunEventBase {
  return {
    runId: live.facts.runId,
    at,
    rootPid: live.state.root?.pid ?? null,
    descendants: live.descendants,
  };
}

/** Throws unless the run may be controlled. Between two connections it may: commands go to the next one. */
export function assertOwned(live: LiveRun): void {
  if (live.detachedBy !== null) throw live.detachedBy;
  if (live.context.leases.fenced)
    throw new NotSteering(
      live.facts.runId,
      "its lease could not be renewed in time, so another supervisor may take it over",
    );
}
