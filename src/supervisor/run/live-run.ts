import type { StartAttempt } from "../../anchor/protocol/errors.js";
import type {
  AnchorEvent,
  AnchorLink,
  FirstStop,
  RunAddress,
  SpawnFailure,
  StopRequest,
  StreamName,
  TerminalSize,
} from "../../anchor/host.js";
import type { LiveProcesses } from "../../anchor/members.js";
import type { NewRunEvent } from "../../model/run-event.js";
import type { RunDeadlines, RunPolicy, RunRecord, ServiceFacts } from "../../model/run.js";
import type { HoldfastError } from "../../errors.js";
import type { RecordedIdentity } from "../end/dead-anchor.js";
import type { AnchorLiveness } from "../anchor-liveness.js";
import type { OutputActivity } from "./output-activity.js";
import type { Timer } from "../../async/clock.js";
import type { SupervisorContext } from "../context.js";
import type { Deadlines } from "./deadlines.js";
import type { Deferred } from "../../async/deferred.js";
import type { RunWriteQueue } from "./write-queue.js";
import type { OutputRanges } from "./output-ranges.js";
import type { RunState } from "./state.js";
import type { Stdin } from "./stdin.js";

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
