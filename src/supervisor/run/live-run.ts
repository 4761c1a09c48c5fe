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
} from "../../anchor/host.js";
import type { LiveProcesses } from "../../anchor/inspect/processes.js";
import type { StartAttempt } from "../../anchor/protocol/errors.js";
import type { Clock, Timer } from "../../async/clock.js";
import type { Deferred } from "../../async/deferred.js";
import { type HoldfastError, NotSteering } from "../../errors.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunDeadlines, RunPolicy, RunRecord, ServiceFacts } from "../../model/run.js";
import type { RunCopy } from "../../store/local-copy/run-copy.js";
import type { RunStore } from "../../store/runs/store.js";
import type { Problem } from "../api.js";
import type { RecordedIdentity } from "./recorded-identity.js";
import type { Deadlines } from "./deadlines.js";
import type { OutputActivity } from "./output-activity.js";
import type { OutputRanges } from "./output-ranges.js";
import type { RunState } from "./state.js";
import type { Stdin } from "./stdin.js";
import type { StoreCircuitBreaker } from "./store-circuit-breaker.js";
import type { RunWriteQueue } from "./write-queue.js";

/** When an anchor last answered, and what was done about its silence. Times are of `Clock`. */
export interface AnchorLiveness {
  /** When the last message came. */
  lastMessageAt: number;
  /** When a STATUS was sent that is not answered yet. */
  statusSentAt: number | null;
  /** It was sent SIGCONT then, and has not answered since. Null: it answers, as far as is known. */
  continuedAt: number | null;
  /** When the first stop was asked for here. */
  stopSentAt: number | null;
  /** How many times the anchor stopped answering after that. */
  silencesAfterStop: number;
  /** True while `handleUnresponsive` runs. */
  handling: boolean;
  /** The last event about it. */
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

/** Its anchor has said something. */
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

/** A stop was sent: its anchor has to answer now. */
export function expectAnchorAnswer(live: LiveRun): void {
  live.anchorLiveness.stopSentAt ??= live.context.clock.now();
  live.context.anchorMonitor.checkSoon();
}

/** Null as actor: leave the runs to their anchors. */
export interface CloseRequest {
  readonly actor: string | null;
}

/** The part of the LeaseRenewer that runs use. */
export interface LeaseStatus {
  /** True: the leases were not renewed in time, so no run may be controlled now. */
  readonly fenced: boolean;
  renew(): Promise<void>;
  onLeaseAcquired(): void;
}

/** The part of the Incarnation that runs use. */
export interface IncarnationStatus {
  isCurrent(): Promise<boolean>;
  markTaken(evidence: string): void;
}

/** The part of the AnchorMonitor that runs use. */
export interface AnchorMonitorHandle {
  checkSoon(): void;
}

/** What every run of one supervisor shares. */
export interface SupervisorContext {
  readonly clock: Clock;
  readonly store: RunStore;
  /** Null: the store is this state directory's own, and goes back with it or not at all. */
  readonly localCopy: RunCopy | null;
  readonly host: AnchorHost;
  readonly instanceId: string;
  /** Of the state directory. Null: nobody said, and it is the only one. */
  readonly stateId: string | null;
  /** Named when nobody else is. */
  readonly actor: string;
  readonly discardOutput: boolean;
  /** Variables of this process that runs do not inherit. */
  readonly withheldEnv: readonly string[];
  readonly leases: LeaseStatus;
  readonly incarnation: IncarnationStatus;
  /** Tells this process from others of the same instance. */
  readonly incarnationId: string;
  readonly anchorMonitor: AnchorMonitorHandle;
  readonly storeBreaker: StoreCircuitBreaker;
  /** Runs whose end is not committed yet. */
  readonly runs: Map<string, LiveRun>;
  /** Runs whose record is being inserted: committed or not, they are looked after here. */
  readonly inserting: Set<string>;
  /** Set once: no run may begin any more, and one that just has is treated like all the others. */
  closing: CloseRequest | null;
  /** A run was let go of before it had ended and before this supervisor closed: somebody else may have it. */
  hasLostRuns: boolean;
  /** The store was found to have gone back in time since everything was last compared with the ledger. */
  storeMayHaveRolledBack: boolean;
  /** The store's, when that was. */
  comparedGeneration: number;
  /** Directories of ended runs, by id, and cgroups, by path, that have been seen to: nobody needs to look again. */
  readonly cleanedUp: Set<string>;
  report(problem: Problem): void;
  /** Work nobody awaits. A failure is reported; close() sees the end of it. */
  track(runId: string, work: Promise<void>): void;
}

/** What does not change during a run. */
export interface RunFacts {
  readonly runId: string;
  readonly address: RunAddress;
  readonly leaseId: string;
  /** For display: secrets redacted. */
  readonly command: string;
  /** What was to be started, when this supervisor started it. Not stored. */
  readonly attempt: StartAttempt | null;
  readonly policy: RunPolicy;
  readonly deadlines: RunDeadlines;
  /** As it began, here. */
  readonly service: ServiceFacts | null;
  /** Unacked bytes at which the anchor stops reading; null: never. */
  readonly withholdAt: Readonly<Record<StreamName, number | null>>;
}

/** A run this supervisor holds, with everything that works for it. The verbs are one file each. */
export interface LiveRun {
  readonly context: SupervisorContext;
  readonly facts: RunFacts;
  readonly writeQueue: RunWriteQueue;
  readonly deadlines: Deadlines;
  readonly stdin: Stdin;
  readonly outputRanges: OutputRanges;
  readonly activity: OutputActivity;
  /** The command has been exec'd, or never will be. */
  readonly started: Deferred<void>;
  /** How it ended is known; since when on the supervisor's clock. */
  readonly endKnown: Deferred<number>;
  /** And committed. */
  readonly ended: Deferred<RunRecord>;
  readonly listener: (link: AnchorLink, event: AnchorEvent) => void;
  state: RunState;
  /** When the command was exec'd; `noted`: and the record says so. */
  startedAt: { readonly at: number; readonly recorded: boolean } | null;
  link: AnchorLink | null;
  /** False: the connection only observes; it can stop the run and hear of it. */
  isOwner: boolean;
  tier: string | null;
  /** Null: a task. */
  service: ServiceFacts | null;
  /** Set while the anchor is to learn that it is a service; resolves when it says so. */
  serviceAck: Deferred<void> | null;
  /** Set while a process of it is to become a run of its own. */
  pendingAdoption: Deferred<void> | null;
  /** Set while some of its processes are to be signalled. */
  pendingSignal: Deferred<number> | null;
  /** Who asked the anchor for its members, by request. */
  readonly memberRequests: Map<string, Deferred<LiveProcesses | null>>;
  /** What is known of the run's processes, should their anchor fall silent. */
  recordedIdentity: RecordedIdentity;
  /** Whether its anchor answers. */
  readonly anchorLiveness: AnchorLiveness;
  firstStop: FirstStop | null;
  /** Why the command was not executed, when this supervisor knows. */
  failure: SpawnFailure | null;
  /** The first stop asked for here. Whoever asked may rely on it: a connection can break with it on its way. */
  requestedStop: StopRequest | null;
  /** Stops to be handed to the next connection. */
  pendingStops: StopRequest[];
  pendingStopsSent: Deferred<void> | null;
  stopRecorded: boolean;
  survivorsRecorded: boolean;
  exitingTimer: Timer | null;
  /** As the anchor says: what it does not read now. */
  withheld: Record<StreamName, boolean>;
  /** Bytes of its output that are known, and recorded, to be missing. */
  lostBytes: Record<StreamName, number>;
  size: TerminalSize | null;
  descendants: number;
  reattaching: boolean;
  finalizing: boolean;
  /** Set: this supervisor has nothing to do with the run any more. */
  detachedBy: HoldfastError | null;
  followers: number;
  /** Somebody has followed the output to its end or been told of the run's. */
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

/** Between two connections a run may be steered: what is asked is handed to the next. */
export function assertOwned(live: LiveRun): void {
  if (live.detachedBy !== null) throw live.detachedBy;
  if (live.context.leases.fenced)
    throw new NotSteering(
      live.facts.runId,
      "its lease could not be renewed in time, so another supervisor may own it soon",
    );
}
