import type { MachineIdentity, ProcessIdentity } from "../../model/process.js";
import type { HiddenEvent, NewRunEvent, RunEvent } from "../../model/run-event.js";
import type {
  Emptiness,
  RunBoundary,
  RunExit,
  RunRecord,
  RunStateName,
  ServiceFacts,
} from "../../model/run.js";
import type { SessionScope } from "../../model/session.js";

/** The right to write one run's record, until there is a newer epoch. */
export interface Lease {
  readonly runId: string;
  readonly ownerInstanceId: string;
  readonly epoch: number;
}

/** A request to own a run: a compare-and-swap on the owner and epoch that were read. */
export interface LeaseRequest {
  readonly runId: string;
  readonly from: { readonly ownerInstanceId: string; readonly epoch: number };
  readonly ownerInstanceId: string;
  /** Above `from.epoch`, and above every epoch that the run's anchor has seen. */
  readonly epoch: number;
  readonly leaseMs: number;
  /** How long the lease must have been expired, on the store's clock. Null: it need not be (own lease, or a lease of another boot). */
  readonly expiredForMs: number | null;
}

/** The record of a run before any of its processes exists. */
export type NewRun = Omit<RunRecord, keyof typeof UNSTARTED | "leaseExpiresAt" | "updatedAt">;

/** Fields of a run of which no process exists. */
export const UNSTARTED = {
  anchor: null,
  root: null,
  processGroupId: null,
  boundary: null,
  tier: null,
  state: "starting",
  startedAt: null,
  lastOutputAt: null,
  endedAt: null,
  exit: null,
  residue: [],
  residueCount: 0,
  usage: null,
  emptiness: null,
  hiddenAt: null,
} as const satisfies Partial<RunRecord>;

/** The processes of a run whose command waits at the gate. */
export interface GatedRunChange {
  readonly to: "gated";
  readonly anchor: ProcessIdentity;
  readonly root: ProcessIdentity;
  readonly processGroupId: number;
  readonly boundary: RunBoundary;
  readonly tier: string;
}

/** One change of a run, with exactly the facts known at that change. */
export type RunChange =
  | GatedRunChange
  /** The boundary gives weaker guarantees than before. The state stays. */
  | { readonly to: "weaker"; readonly tier: string; readonly boundary: RunBoundary }
  | { readonly to: "running"; readonly at: number }
  | { readonly to: "output"; readonly at: number }
  /** The run becomes a service. The state stays. */
  | ({ readonly to: "service"; readonly service: ServiceFacts } & Pick<RunRecord, "deadlines" | "policy">)
  /** The service listens on its port for the first time. The state stays. */
  | { readonly to: "ready"; readonly service: ServiceFacts }
  | { readonly to: "exiting"; readonly at: number }
  | TerminalRunChange;

export interface TerminalRunChange extends Pick<RunRecord, "residue" | "residueCount" | "usage"> {
  readonly to: "exited";
  /** A time before the start is recorded as the start. */
  readonly at: number;
  /** When the command was executed, if that is not recorded yet. Absent: unchanged. */
  readonly startedAt?: number;
  /** Absent: unchanged. */
  readonly lastOutputAt?: number;
  readonly exit: RunExit;
  readonly emptiness: Emptiness;
}

export interface RunFilter {
  readonly states?: readonly RunStateName[];
  readonly ownerInstanceId?: string;
  readonly sessionKey?: string;
  readonly sessionId?: string;
  /** False: omit hidden runs. */
  readonly hidden?: false;
  readonly agentId?: string;
  /** Only runs that ended before. Then the oldest end is first, instead of the newest run. */
  readonly endedBefore?: number;
  readonly hostIds?: readonly string[];
  readonly ofState?: StateDirectoryScope;
  /** Only runs whose lease has been expired for so long, on the store's clock. */
  readonly silentForMs?: number;
  /** Only these runs. */
  readonly runIds?: readonly string[];
  /** Omit runs that these instances started. */
  readonly notFrom?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  /** Only runs of these sessions. */
  readonly seenBy?: SessionScope;
  /** Newest first. */
  readonly limit?: number;
  /** Only runs after this one in that order. */
  readonly after?: Pick<RunRecord, "createdAt" | "runId">;
  /** Stop before the records exceed this size; the first record is always read. */
  readonly maxBytes?: number;
  /** Do not read labels, which may be large; the records have none. */
  readonly withoutLabels?: true;
}

/** The runs of one state directory: by state id and, for runs without one, by the instances that started them. */
export interface StateDirectoryScope {
  readonly stateId: string | null;
  readonly instanceIds: readonly string[];
}

export interface EventFilter {
  readonly after?: number;
  readonly runId?: string;
  /** Only events of runs on these hosts. */
  readonly hostIds?: readonly string[];
  /** Only events of runs of this state directory. */
  readonly stateId?: string;
  readonly limit?: number;
  /** Newest first instead of oldest first. */
  readonly newestFirst?: boolean;
}

/** A boot of a host, and a state directory there; a null state id: any. */
export type LocalScope = Pick<MachineIdentity, "hostId" | "bootId"> & { readonly stateId: string | null };

export interface RunReads {
  getRun(runId: string): Promise<RunRecord | null>;
  /** Runs whose id starts with `prefix`, at most `limit`. */
  findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]>;
  listRuns(filter: RunFilter): Promise<readonly RunRecord[]>;
  /**
   * Open runs that may need attention: the owner's own, and others whose lease has expired or was measured in another
   * boot. In a shared store, only runs of this host and state directory: only there can anything be done, until they have
   * been silent for very long.
   */
  listUnattendedRuns(ownerInstanceId: string, here: LocalScope): Promise<readonly RunRecord[]>;
  listOwnedRunIds(ownerInstanceId: string): Promise<readonly string[]>;
  countEndedRuns(filter?: Pick<RunFilter, "ofState" | "notFrom">): Promise<number>;
  listEvents(filter: EventFilter): Promise<readonly RunEvent[]>;
  /** The highest event number that can be read now. A cursor beyond it is from a store that was rolled back. Null: unknown. */
  eventsReach(): Promise<number | null>;
}

export interface RunWrites {
  /**
   * Inserts the record, `starting`, with a new lease, and with the processes of the run if they are known. Rejects with
   * RunExists if the id is taken.
   */
  insertRun(
    run: NewRun,
    leaseMs: number,
    events?: readonly NewRunEvent[],
    gated?: GatedRunChange,
  ): Promise<Lease>;
  /**
   * Writes one change and its events in one transaction. Rejects with LeaseLost if the epoch is stale. False, and nothing
   * written: the run has exited; terminal records never change. A change to an earlier state (say `running` after
   * `exiting`) keeps the later state and adds its facts.
   */
  saveRun(lease: Lease, change: RunChange, events?: readonly NewRunEvent[]): Promise<boolean>;
  /**
   * Writes the end of a run like `saveRun`, and returns the record as it is in the store: also if another supervisor has
   * ended the run before.
   */
  finalizeRun(lease: Lease, end: TerminalRunChange, events?: readonly NewRunEvent[]): Promise<RunRecord>;
  /**
   * Acquires a lease, one's own after a restart or that of a dead owner, with the events that say why. Null: another
   * instance was faster, the lease has not expired, or the run has exited.
   */
  acquireLease(claim: LeaseRequest, events?: readonly NewRunEvent[]): Promise<Lease | null>;
  /** Acquires the lease and finalizes the run in one transaction. False where `acquireLease` returns null. */
  acquireAndFinalizeRun(
    claim: LeaseRequest,
    end: TerminalRunChange,
    events?: readonly NewRunEvent[],
  ): Promise<boolean>;
  /**
   * Restores a record that the store has lost, with its own epoch and a new lease: it is missing, or open with no later
   * epoch. False, and nothing written: the run has ended, or has a newer owner.
   */
  restoreRun(run: RunRecord, leaseMs: number, events?: readonly NewRunEvent[]): Promise<boolean>;
  /** Extends all leases of an owner, also expired ones that were not stolen, in one statement. Returns how many. */
  renewLeases(ownerInstanceId: string, leaseMs: number): Promise<number>;
  appendEvents(events: readonly NewRunEvent[]): Promise<void>;
  /** Hides runs from lists, whatever their owner and state. Returns how many were not hidden before. */
  hideRuns(runIds: readonly string[], at: number): Promise<number>;
  /** Deletes runs that have exited, with their events. Others stay. Returns how many. */
  deleteRuns(runIds: readonly string[]): Promise<number>;
}

/** The common part of all stores. */
export interface StoreBase extends AsyncDisposable {
  /** True if several hosts use the store. */
  readonly shared: boolean;
  /** Milliseconds on the store's clock. */
  now(): Promise<number>;
}

/** The part of the store that a supervisor needs. */
export interface RunStore extends RunReads, RunWrites, StoreBase {
  /** Counts the servers, databases or sets of tables that the store has been on; a new one may lack records. */
  readonly generation: number;
}

/** Events as a session sees them. */
export interface ScopedEventReads {
  /**
   * `listEvents` for a session that sees only some runs: an event of any other run is a HiddenEvent. So a page costs the
   * same whatever the session sees, and the reader knows up to where it has read.
   */
  listScopedEvents(scope: SessionScope, filter: EventFilter): Promise<readonly (RunEvent | HiddenEvent)[]>;
}
