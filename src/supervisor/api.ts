import type {
  FirstStop,
  MemberSignal,
  SpoolSpec,
  StreamName,
  TerminalSize,
} from "../anchor/host-interface.js";
import type { ProcessIdentity, Survivor } from "../model/process.js";
import type { LiveProcesses } from "../anchor/inspect/processes.js";
import type { InstanceTaken, StoreAway } from "../errors.js";
import type { RunEvent } from "../model/run-event.js";
import type { OnEscape, OnOrphan, RunKind, RunRecord, RunStateName, ServiceFacts } from "../model/run.js";
import type { Decided } from "./reconcile-decision.js";
import type {
  AdoptOptions,
  AskedLimits,
  CancelOptions,
  FollowOptions,
  ReadOptions,
  ReadyOptions,
} from "./check-options.js";
import type { EventFilter, RunFilter } from "../store/runs/contract.js";

/**
 * The command, in one of three forms. `ptyCommand` is passed unchanged to `shell -c`; on Windows to `cmd.exe /d /s /c`, or
 * to `pwsh -Command`.
 */
export type CommandInput =
  | { readonly io: "pipe"; readonly argv: readonly string[] }
  | { readonly io: "pty"; readonly argv: readonly string[] }
  | { readonly io: "pty"; readonly ptyCommand: string; readonly shell?: string };

export interface SpawnOptions {
  /** Chosen by the caller, to find the run if the answer of `spawn` is lost. Rejects with RunExists if it is in use. */
  readonly runId?: string;
  /** Recorded for the supervisor: the run ends when its caller is gone. */
  readonly callerBound?: boolean;
  /** Added to the environment. Injection variables are refused unless listed in `allowEnv`. */
  readonly env?: Readonly<Record<string, string>>;
  /** The base environment instead of this process's. It may contain injection variables. */
  readonly inherit?: Readonly<Record<string, string>>;
  /** True: start from an empty environment. */
  readonly clearEnv?: boolean;
  readonly allowEnv?: readonly string[];
  readonly cwd?: string;
  readonly umask?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly kind?: RunKind;
  /** The TCP port of a service. */
  readonly port?: number;
  readonly onEscape?: OnEscape;
  /** The treatment of the run by another supervisor when this one is gone. Default: it continues. */
  readonly onOrphan?: OnOrphan;
  /** 0 or absent: no deadline. */
  readonly timeoutMs?: number;
  readonly noOutputTimeoutMs?: number;
  readonly graceMs?: number;
  readonly ownerLossMs?: number;
  /** Resource limits. Rejects with `LimitUnavailable` if this host cannot enforce one. */
  readonly limits?: AskedLimits;
  readonly merge?: boolean;
  readonly stdin?: "pipe" | "null";
  /** The complete input. Nothing else can be written. */
  readonly input?: string;
  readonly size?: TerminalSize;
  readonly stdout?: Partial<SpoolSpec>;
  readonly stderr?: Partial<SpoolSpec>;
  readonly sessionKey?: string;
  readonly sessionId?: string;
  readonly agentId?: string;
  readonly backendId?: string;
  /** Id of the task, stored in the run's directory too, so that the run can be found without the store. */
  readonly taskId?: string;
  /** Aborting stops the run. */
  readonly signal?: AbortSignal;
}

/** Result of `ready`. `detail`: which other process listens on the port, if that is known. */
export type Readiness =
  | { readonly kind: "ready"; readonly service: ServiceFacts }
  | { readonly kind: "ended" | "timeout"; readonly detail: string | null }
  /** The signal was aborted, or this supervisor no longer owns the run. */
  | { readonly kind: "given-up" };

/** A service that was a process of another run. */
export interface AdoptedProcess {
  readonly record: RunRecord;
  /** The run that the process belonged to. */
  readonly from: string;
  /** Effects of the end of that run on this service. */
  readonly warnings: readonly string[];
}

export interface OutputChunk {
  readonly stream: StreamName;
  readonly offset: number;
  /** Empty if everything up to `offset` is lost and nothing follows. */
  readonly bytes: Uint8Array;
  /** Number of bytes before `offset` that are missing because a spool file was truncated or removed. */
  readonly lost?: number;
}

/** The end of a run, for a caller that waited for it. */
export interface RunEnding {
  /** The terminal record; with `recordPending`, as it will be. */
  readonly record: RunRecord;
  /** Null: the record is committed. Otherwise the reason; it is written when the store works again. */
  readonly recordPending: string | null;
}

/** One run under supervision. */
export interface Run {
  readonly runId: string;
  readonly state: RunStateName;
  readonly rootPid: number | null;
  /** Size of the terminal; null: there is none, or it is not known. */
  readonly size: TerminalSize | null;
  /** Null: a task. */
  readonly service: ServiceFacts | null;
  /** The first requested stop, as the anchor has it. */
  readonly firstStop: FirstStop | null;
  /** The run ends when its caller is gone. */
  readonly callerBound: boolean;
  /** True if the caller is connected to the anchor, which stops the run when the caller disconnects. */
  readonly hasCaller: boolean;
  readonly survivors: readonly Survivor[];
  /** Number of bytes of stdin that the anchor has accepted. */
  readonly stdinAccepted: number;
  /** Time since the last output. */
  readonly idleMs: number;
  /** Resolves when there is output at or after one of these offsets, when the output has ended, or on abort. */
  changed(from: Readonly<Record<StreamName, number>>, signal?: AbortSignal): Promise<void>;
  /** Resolves with the terminal record when it is committed. That may take long if the store cannot be written. */
  wait(): Promise<RunRecord>;
  /** How the run ended. Resolves at most `waitMs` (default `recordWaitMs`) after the end is known, even if the store cannot be written. */
  end(waitMs?: number): Promise<RunEnding>;
  /** Requests a stop. Idempotent. Resolves when the stop was sent to the anchor, not when the run has ended. */
  cancel(options?: CancelOptions): Promise<void>;
  /** The same as `stdinAccepted`. */
  readonly accepted: number;
  /** Number of written bytes that the anchor has not accepted. */
  readonly waitingInput: number;
  /** Resolves when the anchor has every byte. With `at`, bytes that are already written from that offset on are skipped. */
  write(data: Uint8Array | string, at?: number): Promise<void>;
  closeStdin(): Promise<void>;
  resize(size: TerminalSize): void;
  /** The caller reports progress of the run: re-arms the no-output deadline. */
  heartbeat(): void;
  read(stream: StreamName, options?: ReadOptions): Promise<OutputChunk>;
  /** Live output until the run's streams end. Every follower gets all bytes. */
  follow(options?: FollowOptions): AsyncIterable<OutputChunk>;
  ack(stream: StreamName, offset: number): void;
  /** Its live processes, with the leader. */
  members(): Promise<LiveProcesses>;
  /**
   * Signals members of the run. The anchor ignores the leader and processes that are no members. Resolves with the
   * number of signalled processes.
   */
  signal(processes: readonly ProcessIdentity[], signal: MemberSignal): Promise<number>;
}

export interface SupervisorOptions {
  /** The state directory. Default: `$HOLDFAST_HOME`, else the platform's convention. */
  readonly home?: string;
  /** A persistent instance; absent: a temporary one, which `close` removes. */
  readonly instanceId?: string;
  /** The default actor. */
  readonly actor?: string;
  /** Remove a run's directory with its output after its end, when it has no follower. Default false: at close, or by retention. */
  readonly discardOutput?: boolean;
  /** Variables of this process that runs do not inherit. */
  readonly withheldEnv?: readonly string[];
  /**
   * If given, opening waits for an unreachable store instead of failing, and keeps this instance's runs alive. Called
   * after each failed attempt.
   */
  readonly onStoreAway?: (error: StoreAway, held: number) => void;
  /** Ends the wait for an unreachable store. */
  readonly signal?: AbortSignal;
  /**
   * Called once when another process has taken over this instance. This supervisor then controls nothing, its runs keep
   * running, and every call but `close` rejects with the same error.
   */
  readonly onTaken?: (error: InstanceTaken) => void;
  /** Called for background problems: failed writes to the store, survivors, a lost lease. Must not throw. */
  readonly onProblem?: (problem: Problem) => void;
}

/** A problem for the operator. The message says how Holdfast continues. */
export interface Problem {
  /** Null: it concerns the supervisor as a whole. */
  readonly runId: string | null;
  readonly message: string;
  readonly cause: unknown;
}

export interface ReconcileScope {
  /** Only these runs. */
  readonly runIds?: readonly string[];
  /** Stop the runs that would be taken over. */
  readonly terminate?: boolean;
}

/** Result of a reconciliation: one decision per open run that this supervisor did not own. */
export interface Reconciliation {
  readonly decisions: readonly Decided[];
  /** The runs that this supervisor acquired. */
  readonly runs: readonly Run[];
}

export interface Retention {
  readonly endedKeptMs: number;
  readonly endedKept: number;
  readonly outputKeptBytes: number;
}

export interface Retained {
  /** Number of deleted records, with their events and output. */
  readonly records: number;
  /** Number of removed directories whose records are kept. */
  readonly outputs: number;
}

/** Result of a stop. `unknown`: whether processes are left is not known. */
export interface RunStopResult {
  readonly outcome: "gone" | "ended-before" | "survivors" | "unknown";
  readonly survivors: readonly Survivor[];
}

/** State of a supervisor's writes to the store. */
export interface StoreWriteStatus {
  /** Error of the last write; null: it succeeded. */
  readonly refusal: unknown;
  /** Number of waiting writes. */
  readonly backlog: number;
  /** Time since the leases were last renewed. */
  readonly renewalMs: number;
}

export interface RunList {
  readonly runs: readonly RunRecord[];
  /** Why the store could not be read; null: the list is complete. */
  readonly storeAway: string | null;
}

export interface Supervisor extends AsyncDisposable {
  readonly instanceId: string;
  readonly home: string;
  /** Number of runs that it owns. */
  readonly held: number;
  /** The runs that it owns. Needs no store. */
  runs(): readonly Run[];
  spawn(input: CommandInput, options?: SpawnOptions): Promise<Run>;
  /** Null: not one of this supervisor's live runs. */
  run(runId: string): Run | null;
  /** Reattaches to this instance's live anchors and finalizes the runs that have ended. */
  recover(): Promise<readonly Run[]>;
  /** The same for every run of the state directory whose owner is gone: takes it over or ends it, by the decision table. */
  reconcile(scope?: ReconcileScope): Promise<Reconciliation>;
  /** Keeps the runs of this instance alive while the store is unreachable. Resolves with their number. */
  holdOn(): Promise<number>;
  /** Deletes ended runs and output beyond the limits. */
  retain(limits?: Partial<Retention>): Promise<Retained>;
  /** Stops any run of this state directory, whichever supervisor owns it, and waits for the result. */
  stop(runId: string, options?: CancelOptions): Promise<RunStopResult>;
  /** Hides runs from lists. Resolves with the number of runs that were visible. */
  hide(runIds: readonly string[]): Promise<number>;
  /** Waits until a process of the service listens on its port, or the service has ended. */
  ready(runId: string, options?: ReadyOptions): Promise<Readiness>;
  /** Makes a running task a service, which continues without its supervisor. Resolves when its anchor knows. */
  adoptRun(runId: string, options?: AdoptOptions): Promise<RunRecord>;
  /** Makes a process of an owned run, with its descendants, a service of its own. */
  adoptProcess(pid: number, options?: Pick<AdoptOptions, "actor">): Promise<AdoptedProcess>;
  getRun(runId: string): Promise<RunRecord | null>;
  /**
   * Stored output of any run of this state directory, named by its id or by its record, which is then not read again.
   * Empty: nothing at or after the offset.
   */
  readOutput(run: string | RunRecord, stream: StreamName, options?: ReadOptions): Promise<OutputChunk>;
  listRuns(filter?: RunFilter): Promise<readonly RunRecord[]>;
  /** Like `listRuns`; if a shared store does not answer in time, only the runs of this state directory. */
  listRunsOrLocal(filter?: RunFilter, withinMs?: number): Promise<RunList>;
  writes(): StoreWriteStatus;
  listEvents(filter?: EventFilter): Promise<readonly RunEvent[]>;
  /** A filter for the runs of this state directory in a shared store. */
  scope(): Promise<Pick<RunFilter, "ofState">>;
  /** The last event number that can be read now; null: no limit. */
  eventsReach(): Promise<number | null>;
  /** Stops all runs (`shutdown`) and waits; with `leaveRuns`, detaches from them. */
  close(options?: { readonly leaveRuns?: boolean; readonly actor?: string }): Promise<void>;
}
