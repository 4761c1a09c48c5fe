import type { AnchorHost } from "../anchor/host.js";
import type { RunCopy } from "../store/ledger/ledger.js";
import type { RunStore } from "../store/store.js";
import type { AnchorMonitor } from "./attach/anchor-monitor.js";
import type { Problem } from "./api.js";
import type { Clock } from "../async/clock.js";
import type { Incarnation } from "./lease/incarnation.js";
import type { LeaseRenewer } from "./lease/lease-renewer.js";
import type { UnreachableTracker } from "./reconcile/unreachable.js";
import type { StoreCircuitBreaker } from "./run/store-circuit-breaker.js";
import type { LiveRun } from "./run/live-run.js";

/** Null as actor: leave the runs to their anchors. */
export interface CloseRequest {
  readonly actor: string | null;
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
  readonly leases: LeaseRenewer;
  readonly incarnation: Incarnation;
  /** Tells this process from others of the same instance. */
  readonly incarnationId: string;
  readonly anchorMonitor: AnchorMonitor;
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
  readonly unreachable: UnreachableTracker;
  /** Directories of ended runs, by id, and cgroups, by path, that have been seen to: nobody needs to look again. */
  readonly cleanedUp: Set<string>;
  report(problem: Problem): void;
  /** Work nobody awaits. A failure is reported; close() sees the end of it. */
  track(runId: string, work: Promise<void>): void;
}
