import type { NewRunEvent, RunEvent } from "./run-event.js";
import type {
  Emptiness,
  ProcessIdentity,
  Residue,
  RunBoundary,
  RunExit,
  RunRecord,
  RunStateName,
  RunUsage,
} from "./run-record.js";

/** The right to write one run's record. A newer epoch ends it. */
export interface Lease {
  readonly runId: string;
  readonly ownerInstanceId: string;
  readonly epoch: number;
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
  | { readonly to: "exiting"; readonly at: number }
  | {
      readonly to: "exited";
      readonly at: number;
      readonly exit: RunExit;
      readonly residue: readonly Residue[];
      readonly residueCount: number;
      readonly usage: RunUsage | null;
      readonly emptiness: Emptiness;
    };

export interface RunFilter {
  readonly states?: readonly RunStateName[];
  readonly ownerInstanceId?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** Newest first. */
  readonly limit?: number;
}

export interface EventFilter {
  readonly after?: number;
  readonly runId?: string;
  readonly limit?: number;
}

/** All durable state. One implementation per database, one contract suite for all of them. */
export interface Store extends AsyncDisposable {
  /** Commit the record, `starting`, under a fresh lease. Rejects with RunExists when the id is taken. */
  insertRun(run: NewRun, leaseMs: number, events?: readonly NewRunEvent[]): Promise<Lease>;
  /**
   * Write one step and its events in one transaction. Rejects with LeaseLost when the epoch is stale.
   * False, and nothing written, when the run has already exited: terminal records never change.
   * A step back (say `running` after `exiting`) keeps the later state name and fills in its facts.
   */
  saveRun(lease: Lease, change: RunChange, events?: readonly NewRunEvent[]): Promise<boolean>;
  /** Make a new epoch of a run this owner already holds (re-attach after a restart). Null when someone else holds it or it has exited. */
  reclaimLease(
    runId: string,
    ownerInstanceId: string,
    atLeastEpoch: number,
    leaseMs: number,
  ): Promise<Lease | null>;
  /** Extend all leases of an owner, one statement. Returns how many. */
  renewLeases(ownerInstanceId: string, leaseMs: number): Promise<number>;
  getRun(runId: string): Promise<RunRecord | null>;
  /** Runs whose id starts with `prefix`, at most `limit`. */
  findRuns(prefix: string, limit: number): Promise<readonly RunRecord[]>;
  listRuns(filter: RunFilter): Promise<readonly RunRecord[]>;
  /** Oldest first. */
  listEvents(filter: EventFilter): Promise<readonly RunEvent[]>;
  appendEvents(events: readonly NewRunEvent[]): Promise<void>;
  /** Milliseconds on the store's clock. */
  now(): Promise<number>;
}
