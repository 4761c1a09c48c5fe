import type { FirstStop, MemberSignal, SpoolSpec, StreamName, TerminalSize } from "../anchor/host.js";
import type { ProcessIdentity, Survivor } from "../model/process.js";
import type { LiveProcesses } from "../anchor/inspect/processes.js";
import type { InstanceTaken, StoreAway } from "../errors.js";
import type { RunEvent } from "../model/run-event.js";
import type { OnEscape, OnOrphan, RunKind, RunRecord, RunStateName, ServiceFacts } from "../model/run.js";
import type { Decided } from "./decision.js";
import type {
  AdoptOptions,
  AskedLimits,
  CancelOptions,
  FollowOptions,
  ReadOptions,
  ReadyOptions,
} from "./run-options.js";
import type { EventFilter, RunFilter } from "../store/runs/store.js";

/** What to run: exactly one of three shapes. `ptyCommand` goes verbatim to `shell -c`; it is never rebuilt from argv. */
export type CommandInput =
  | { readonly io: "pipe"; readonly argv: readonly string[] }
  | { readonly io: "pty"; readonly argv: readonly string[] }
  | { readonly io: "pty"; readonly ptyCommand: string; readonly shell?: string };

export interface SpawnOptions {
  /** Chosen by the caller, who can then ask what became of a spawn whose answer was lost. RunExists when it is taken. */
  readonly runId?: string;
  /** Recorded, for whoever supervises it: the run is to end when its caller is gone. */
  readonly callerBound?: boolean;
  /** Defaults to this process's. Injection variables set here are refused unless listed in `allowEnv`. */
  readonly env?: Readonly<Record<string, string>>;
  /** Start from this environment instead of this process's: a caller's own, which may hold what `env` may not set. */
  readonly inherit?: Readonly<Record<string, string>>;
  /** True: start from an empty environment instead of this process's. */
  readonly clearEnv?: boolean;
  readonly allowEnv?: readonly string[];
  readonly cwd?: string;
  readonly umask?: number;
  readonly labels?: Readonly<Record<string, string>>;
  readonly kind?: RunKind;
  /** Of a service: the TCP port where one of its processes will listen. */
  readonly port?: number;
  readonly onEscape?: OnEscape;
  /** When this supervisor is gone for good and another takes the run over. Default: it goes on there. */
  readonly onOrphan?: OnOrphan;
  /** 0 or absent: no deadline. */
  readonly timeoutMs?: number;
  readonly noOutputTimeoutMs?: number;
  readonly graceMs?: number;
  readonly ownerLossMs?: number;
  /** What it may use at most. One that cannot be set here refuses the run (`LimitUnavailable`). */
  readonly limits?: AskedLimits;
  readonly merge?: boolean;
  readonly stdin?: "pipe" | "null";
  /** All of its input. Nothing can be written before or after it. */
  readonly input?: string;
  readonly size?: TerminalSize;
  readonly stdout?: Partial<SpoolSpec>;
  readonly stderr?: Partial<SpoolSpec>;
  readonly sessionKey?: string;
  readonly sessionId?: string;
  readonly agentId?: string;
  readonly backendId?: string;
  /** Id of the work that the run does, kept in its directory: the run can be found by it without the store. */
  readonly taskId?: string;
  /** Aborting cancels the run. */
  readonly signal?: AbortSignal;
}

/** What came of waiting for a service. `detail`: who listens there instead, as far as it can be seen. */
export type Readiness =
  | { readonly kind: "ready"; readonly service: ServiceFacts }
  | { readonly kind: "ended" | "timeout"; readonly detail: string | null }
  /** The caller does not want to know any more, or this supervisor no longer holds the run. */
  | { readonly kind: "given-up" };

/** A service that was a process of another run. */
export interface AdoptedProcess {
  readonly record: RunRecord;
  /** The run it came out of. */
  readonly from: string;
  /** What that one's end would do to it. */
  readonly warnings: readonly string[];
}

export interface OutputChunk {
  readonly stream: StreamName;
  readonly offset: number;
  /** Empty when everything up to `offset` is lost and nothing has come after it. */
  readonly bytes: Uint8Array;
  /** How many bytes before `offset` are missing because a spool file was truncated or removed. Absent: none. */
  readonly lost?: number;
}

/** The end of a run, for a caller that waited for it. */
export interface RunEnding {
  /** The terminal record, or with `recordPending` what it will say. */
  readonly record: RunRecord;
  /** Null: it is committed. Otherwise why not; the record is written when the store works again. */
  readonly recordPending: string | null;
}

/** One run under supervision. */
export interface Run {
  readonly runId: string;
  readonly state: RunStateName;
  readonly rootPid: number | null;
  /** Of its terminal, as far as it is known here; null: it has none, or nobody has said. */
  readonly size: TerminalSize | null;
  /** Null: a task. */
  readonly service: ServiceFacts | null;
  /** The first stop asked for, as the anchor holds it. */
  readonly firstStop: FirstStop | null;
  /** It belongs to the one who called for it, and ends when that one is gone. */
  readonly callerBound: boolean;
  readonly survivors: readonly Survivor[];
  /** How many bytes of its stdin the anchor holds, or has passed on. */
  readonly stdinAccepted: number;
  /** How long it has written nothing. */
  readonly idleMs: number;
  /** Resolves when there is output at or after one of these offsets, or there will be none, or the signal aborts. */
  changed(from: Readonly<Record<StreamName, number>>, signal?: AbortSignal): Promise<void>;
  /** Resolves with the terminal record, once it is committed: with a store that cannot be written, that may take long. */
  wait(): Promise<RunRecord>;
  /** How the run ended. Resolves at most `waitMs` (default `recordWaitMs`) after the end is known, even if the store cannot be written. */
  end(waitMs?: number): Promise<RunEnding>;
  /** Idempotent. Resolves when the stop has been handed to the anchor, not when the run has ended. */
  cancel(options?: CancelOptions): Promise<void>;
  /** Of its input, how much its anchor holds. */
  readonly accepted: number;
  /** And how much has been written and waits for the program to make room. */
  readonly waitingInput: number;
  /** Resolves when the anchor holds every byte. With `at`, what is there from that offset on is not taken twice. */
  write(data: Uint8Array | string, at?: number): Promise<void>;
  closeStdin(): Promise<void>;
  resize(size: TerminalSize): void;
  /** The caller vouches that the run is making progress: re-arms the no-output deadline. */
  heartbeat(): void;
  read(stream: StreamName, options?: ReadOptions): Promise<OutputChunk>;
  /** Live output until the run's streams end. Two followers see the same bytes. */
  follow(options?: FollowOptions): AsyncIterable<OutputChunk>;
  ack(stream: StreamName, offset: number): void;
  /** Who lives in it now, its first process included. */
  members(): Promise<LiveProcesses>;
  /**
   * Signal processes of it, and nobody else; the run goes on. Its first process is left alone, and so is everybody who
   * is no member when the anchor looks. Resolves with how many were signalled.
   */
  signal(processes: readonly ProcessIdentity[], signal: MemberSignal): Promise<number>;
}

export interface SupervisorOptions {
  /** The state directory. Default: `$HOLDFAST_HOME`, else the platform's convention. */
  readonly home?: string;
  /** A stable instance to continue; absent: a fresh, ephemeral one, removed at close. */
  readonly instanceId?: string;
  /** Who is named as actor when nobody else is. */
  readonly actor?: string;
  /** Remove a run's directory (its output) as soon as it has ended and its followers are done. Default false: at close, or by retention. */
  readonly discardOutput?: boolean;
  /** Variables of this process that none of its runs inherits from it. */
  readonly withheldEnv?: readonly string[];
  /**
   * Given: when the store is away, opening waits for it instead of failing, holds this instance's runs meanwhile, and
   * tells each time that it asked in vain.
   */
  readonly onStoreAway?: (error: StoreAway, held: number) => void;
  /** Ends the waiting for a store that is away. */
  readonly signal?: AbortSignal;
  /**
   * Called once when another process of this instance has replaced this one. This supervisor then steers nothing,
   * its runs are left alive, and every call but `close` rejects with the same error.
   */
  readonly onTaken?: (error: InstanceTaken) => void;
  /** Told of what goes wrong behind the calls: a store that refuses writes, survivors, a lost lease. Must not throw. */
  readonly onProblem?: (problem: Problem) => void;
}

/** Something an operator should know. Holdfast goes on as the message says. */
export interface Problem {
  /** Null: it concerns the supervisor as a whole. */
  readonly runId: string | null;
  readonly message: string;
  readonly cause: unknown;
}

export interface ReconcileScope {
  /** Only these runs. */
  readonly runIds?: readonly string[];
  /** Stop what would be taken over alive. */
  readonly terminate?: boolean;
}

/** One decision about one run that had no end on record and was not held here. */
export interface Reconciliation {
  readonly decisions: readonly Decided[];
  /** What this supervisor holds now and did not before. */
  readonly runs: readonly Run[];
}

export interface Retention {
  readonly endedKeptMs: number;
  readonly endedKept: number;
  readonly outputKeptBytes: number;
}

export interface Retained {
  /** Records forgotten, with their events and output. */
  readonly records: number;
  /** Directories removed, whose records stay. */
  readonly outputs: number;
}

/** What became of a run that was to be stopped. `unknown`: no anchor answers, and nothing was signalled. */
export interface RunStopResult {
  readonly outcome: "gone" | "ended-before" | "survivors" | "unknown";
  readonly survivors: readonly Survivor[];
}

/** State of a supervisor's writes to the store. */
export interface StoreWriteStatus {
  /** Why the last write was refused; null: it was accepted. */
  readonly refusal: unknown;
  /** Writes that wait to be repeated. */
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
  /** How many runs it holds. */
  readonly held: number;
  /** Those that it holds, also with a store that is away. */
  runs(): readonly Run[];
  spawn(input: CommandInput, options?: SpawnOptions): Promise<Run>;
  /** Null: not one of this supervisor's live runs. */
  run(runId: string): Run | null;
  /** Re-attach to this instance's live anchors, finalize what ended meanwhile. */
  recover(): Promise<readonly Run[]>;
  /** The same for every run of the state directory whose owner is gone: take over or end what the rules allow. */
  reconcile(scope?: ReconcileScope): Promise<Reconciliation>;
  /** What cannot be taken up, because the store is away, must not be ended by its anchor for that. How many are kept so. */
  holdOn(): Promise<number>;
  /** Forget ended runs that are older or more than is kept, and their output. */
  retain(limits?: Partial<Retention>): Promise<Retained>;
  /** Stop any run of this state directory, held here or not, and say what became of it. */
  stop(runId: string, options?: CancelOptions): Promise<RunStopResult>;
  /** Leave runs out of lists. Returns how many were in them. */
  hide(runIds: readonly string[]): Promise<number>;
  /** Wait until one of a service's own processes listens on its port, or it has ended. Stops nothing. */
  ready(runId: string, options?: ReadyOptions): Promise<Readiness>;
  /** Make a service of a running task: nobody's leaving ends it from here on. Resolves when its anchor knows. */
  adoptRun(runId: string, options?: AdoptOptions): Promise<RunRecord>;
  /** Make a service of its own of a process inside a run that is held here, with all below it. */
  adoptProcess(pid: number, options?: Pick<AdoptOptions, "actor">): Promise<AdoptedProcess>;
  getRun(runId: string): Promise<RunRecord | null>;
  /** Kept output of any run of this state directory, ended or not. Empty: nothing at or after the offset. */
  readOutput(runId: string, stream: StreamName, options?: ReadOptions): Promise<OutputChunk>;
  listRuns(filter?: RunFilter): Promise<readonly RunRecord[]>;
  /** The same; if a shared store does not answer in time, only the runs of this state directory. */
  listRunsOrLocal(filter?: RunFilter, withinMs?: number): Promise<RunList>;
  writes(): StoreWriteStatus;
  listEvents(filter?: EventFilter): Promise<readonly RunEvent[]>;
  /** A filter for runs of this state directory alone, where others keep theirs in the same store. */
  scope(): Promise<Pick<RunFilter, "ofState">>;
  /** No event after this number can be read now; null: any can. */
  eventsReach(): Promise<number | null>;
  /** Cancel everything (`shutdown`) and wait, or with `leaveRuns` just let go. */
  close(options?: { readonly leaveRuns?: boolean; readonly actor?: string }): Promise<void>;
}
