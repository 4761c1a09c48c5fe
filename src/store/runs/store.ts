import type { MachineIdentity, ProcessIdentity, Residue } from "../../model/process.js";
import type { HiddenEvent, NewRunEvent, RunEvent } from "../../model/run-event.js";
import type {
  Emptiness,
  RunBoundary,
  RunDeadlines,
  RunExit,
  RunPolicy,
  RunRecord,
  RunStateName,
  RunUsage,
  ServiceFacts,
} from "../../model/run.js";
import type { SessionScope } from "../../model/session.js";

/** The right to write one run's record. A newer epoch ends it. */
export interface Lease {
  readonly runId: string;
  readonly ownerInstanceId: string;
  readonly epoch: number;
}

/** To become the owner of a run: one compare-and-swap on what the record said when it was looked at. */
export interface LeaseRequest {
  readonly runId: string;
  readonly from: { readonly ownerInstanceId: string; readonly epoch: number };
  readonly ownerInstanceId: string;
  /** Above `from.epoch`, and above everything the run's anchor has seen. */
  readonly epoch: number;
  readonly leaseMs: number;
  /** For how long the lease must have been expired, on the store's clock. Null: it need not be (one's own; another boot's, whose clock is gone). */
  readonly expiredForMs: number | null;
}

/** What a record must say before anything of the run exists. */
export type NewRun = Omit<
  RunRecord,
  | "anchor"
  | "root"
  | "processGroupId"
  | "boundary"
  | "tier"
  | "state"
  | "leaseExpiresAt"
  | "startedAt"
  | "lastOutputAt"
  | "updatedAt"
  | "endedAt"
  | "exit"
  | "residue"
  | "residueCount"
  | "usage"
  | "emptiness"
  | "hiddenAt"
>;

/** One step of a run's life, with exactly what is known at that step. */
export type RunChange =
  | {
      readonly to: "gated";
      readonly anchor: ProcessIdentity;
      readonly root: ProcessIdentity;
      readonly processGroupId: number;
      readonly boundary: RunBoundary;
      readonly tier: string;
    }
  /** The guarantees are weaker than they were. The state stays. */
  | { readonly to: "weaker"; readonly tier: string; readonly boundary: RunBoundary }
  | { readonly to: "running"; readonly at: number }
  | { readonly to: "output"; readonly at: number }
  /** From here on it is a service, whatever it was. The state stays. */
  | {
      readonly to: "service";
      readonly service: ServiceFacts;
      readonly deadlines: RunDeadlines;
      readonly policy: RunPolicy;
    }
  /** A service listens where it should, for the first time. The state stays. */
  | { readonly to: "ready"; readonly service: ServiceFacts }
  | { readonly to: "exiting"; readonly at: number }
  | {
      readonly to: "exited";
      /** A time before the start is recorded as the start. */
      readonly at: number;
      /** Left out: as it was. */
      readonly lastOutputAt?: number;
      readonly exit: RunExit;
      readonly residue: readonly Residue[];
      readonly residueCount: number;
      readonly usage: RunUsage | null;
      readonly emptiness: Emptiness;
    };

export type TerminalRunChange = Extract<RunChange, { readonly to: "exited" }>;

export interface RunFilter {
  readonly states?: readonly RunStateName[];
  readonly ownerInstanceId?: string;
  readonly sessionKey?: string;
  readonly sessionId?: string;
  /** False: leave out what has been hidden. */
  readonly hidden?: false;
  readonly agentId?: string;
  /** Only those that ended before: oldest end first then, instead of newest first. */
  readonly endedBefore?: number;
  readonly hostIds?: readonly string[];
  readonly ofState?: StateDirectoryScope;
  /** Only those whose lease has been expired for so long, on the store's clock. */
  readonly silentForMs?: number;
  /** Only these, as many as there are. */
  readonly runIds?: readonly string[];
  /** Not those that these instances started. */
  readonly notFrom?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  /** Only runs of these sessions. */
  readonly seenBy?: SessionScope;
  /** Newest first. */
  readonly limit?: number;
  /** Only runs after this one in that order. */
  readonly after?: Pick<RunRecord, "createdAt" | "runId">;
  /** Stop before the records exceed this size; the first one is always read. */
  readonly maxBytes?: number;
  /** Labels are not read, and the records have none: for readers that need none, since labels may be large. */
  readonly withoutLabels?: true;
}

/** The runs of one state directory: those that say so, and of those that do not say, what these instances started. */
export interface StateDirectoryScope {
  readonly stateId: string | null;
  readonly instanceIds: readonly string[];
}

export interface EventFilter {
  readonly after?: number;
  readonly runId?: string;
  /** Of runs of these hosts. */
  readonly hostIds?: readonly string[];
  /** Of runs of this state directory. */
  readonly stateId?: string;
  readonly limit?: number;
  /** Instead of oldest first. */
  readonly newestFirst?: boolean;
}

/** A boot of a host, and a state directory there; null: any. */
export type LocalScope = Pick<MachineIdentity, "hostId" | "bootId"> & { readonly stateId: string | null };

/** Runs and their events. */
export interface RunStore extends AsyncDisposable {
  /** Whether other hosts keep their runs in it, too. */
  readonly shared: boolean;
  /** How many servers, databases or sets of tables it has been on, one after the other: each may know less than the last. */
  readonly generation: number;
  /** Commit the record, `starting`, under a fresh lease. Rejects with RunExists when the id is taken. */
  insertRun(run: NewRun, leaseMs: number, events?: readonly NewRunEvent[]): Promise<Lease>;
  /**
   * Write one step and its events in one transaction. Rejects with LeaseLost when the epoch is stale.
   * False, and nothing written, when the run has already exited: terminal records never change.
   * A step back (say `running` after `exiting`) keeps the later state name and fills in its facts.
   */
  saveRun(lease: Lease, change: RunChange, events?: readonly NewRunEvent[]): Promise<boolean>;
  /** Take a lease, one's own after a restart or a dead owner's, with the events that say why. Null: somebody was faster, it is not expired, or the run has exited. */
  acquireLease(claim: LeaseRequest, events?: readonly NewRunEvent[]): Promise<Lease | null>;
  /** Claim and end in one: for a run of which nothing is left but its record. False where `claimLease` says null. */
  acquireAndFinalizeRun(
    claim: LeaseRequest,
    end: TerminalRunChange,
    events?: readonly NewRunEvent[],
  ): Promise<boolean>;
  /**
   * Put back what the store has forgotten, as a whole, under its own epoch and a fresh lease: the record is missing, or
   * it is open and of no later epoch. False, and nothing written: it has ended, or has a newer owner.
   */
  restoreRun(run: RunRecord, leaseMs: number, events?: readonly NewRunEvent[]): Promise<boolean>;
  /** Extend all leases of an owner, expired ones too: nobody has taken them. One statement. Returns how many. */
  renewLeases(ownerInstanceId: string, leaseMs: number): Promise<number>;
  /**
   * Open runs that somebody may have to see to: this owner's own, and others' whose lease has expired or was measured
   * in another boot. Healthy leases of others are left out; where the store is shared, also expired ones of other
   * hosts and state directories: only there can anything be done, until they have been silent for very long.
   */
  listUnattendedRuns(ownerInstanceId: string, here: LocalScope): Promise<readonly RunRecord[]>;
  /** Ids of the runs an owner holds. */
  listOwnedRunIds(ownerInstanceId: string): Promise<readonly string[]>;
  getRun(runId: string): Promise<RunRecord | null>;
  /** Runs whose id starts with `prefix`, at most `limit`. */
  findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]>;
  listRuns(filter: RunFilter): Promise<readonly RunRecord[]>;
  listEvents(filter: EventFilter): Promise<readonly RunEvent[]>;
  appendEvents(events: readonly NewRunEvent[]): Promise<void>;
  /** No event after this number can be read now. A cursor beyond it is of a store that has gone back since. Null: any can. */
  eventsReach(): Promise<number | null>;
  /**
   * Leave runs out of lists from now on, whoever owns them and whether they have exited or not. One that is hidden
   * stays as it is. Returns how many were not.
   */
  hideRuns(runIds: readonly string[], at: number): Promise<number>;
  /** Forget runs that have exited, with their events. Others are left alone. Returns how many. */
  deleteRuns(runIds: readonly string[]): Promise<number>;
  /** How many of these runs have exited. */
  countEndedRuns(filter?: Pick<RunFilter, "ofState" | "notFrom">): Promise<number>;
  /** Milliseconds on the store's clock. */
  now(): Promise<number>;
}

/** Events as a session sees them. */
export interface ScopedEventReads {
  /**
   * `listEvents` for a session that sees only some runs: an event of any other run is a HiddenEvent. So a page costs
   * the same whatever the session sees, and the reader knows up to where it has read.
   */
  listScopedEvents(scope: SessionScope, filter: EventFilter): Promise<readonly (RunEvent | HiddenEvent)[]>;
}
