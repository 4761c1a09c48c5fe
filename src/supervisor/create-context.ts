import type { AnchorHost } from "../anchor/host-interface.js";
import type { InstanceHold } from "../anchor/instance/hold-instance-locks.js";
import { type Clock, systemClock } from "../async/clock.js";
import { defaults } from "../defaults.js";
import type { InstanceTaken } from "../errors.js";
import { errorMessage } from "../home/errno.js";
import { newIncarnationId } from "../model/ids.js";
import { type RunCopy, withRunCopy } from "../store/local-copy/run-copy.js";
import type { RunStore } from "../store/runs/contract.js";
import type { Problem } from "./api.js";
import { AnchorMonitor } from "./attach/anchor-monitor.js";
import { onLeaseMissing } from "./attach/lease-lost.js";
import type { KeepaliveLinks } from "./lease/acquire.js";
import { Incarnation } from "./lease/incarnation.js";
import { LeaseRenewer } from "./lease/lease-renewer.js";
import type { SupervisorContext } from "./run/live-run.js";
import { StoreCircuitBreaker } from "./run/store-circuit-breaker.js";

export interface SupervisorDependencies {
  readonly store: RunStore;
  /** Only for a shared store: this host's copy of the records. */
  readonly localCopy?: RunCopy;
  /** Connections that keep runs alive while the store is unreachable. */
  readonly keepaliveLinks?: KeepaliveLinks;
  readonly host: AnchorHost;
  /** The locks of this instance, which are checked at an interval. */
  readonly locks?: Pick<InstanceHold, "check">;
  readonly clock?: Clock;
  readonly instanceId: string;
  /** Default: a new id. */
  readonly incarnation?: string;
  readonly home: string;
  readonly stateId?: string;
  readonly actor?: string;
  readonly waitForEndMs?: number;
  readonly discardOutput?: boolean;
  readonly withheldEnv?: readonly string[];
  readonly onProblem?: (problem: Problem) => void;
  readonly onTaken?: (error: InstanceTaken) => void;
  /** Called once, after the last write, to release further resources. `left` runs have no terminal record. */
  readonly onClosed?: (left: number) => Promise<void>;
}

/** Work at an interval, which the supervisor starts and stops. */
export interface BackgroundDuties {
  readonly leases: LeaseRenewer;
  readonly incarnation: Incarnation;
  readonly anchorMonitor: AnchorMonitor;
}

export function createContext(
  dependencies: SupervisorDependencies,
  onTaken: (error: InstanceTaken) => void,
  trackWork: (work: Promise<void>) => void,
): { readonly context: SupervisorContext; readonly duties: BackgroundDuties } {
  const {
    localCopy = null,
    host,
    clock = systemClock,
    instanceId,
    stateId = null,
    actor = `supervisor:${instanceId}`,
    discardOutput = false,
    withheldEnv = [],
    waitForEndMs = defaults.waitForEndMs,
    locks,
  } = dependencies;
  const report = (problem: Problem): void => {
    try {
      dependencies.onProblem?.(problem);
    } catch {
      // An error of the listener must not prevent the end of a run.
    }
  };
  const onCopyFailed = (runId: string, cause: unknown): void =>
    report({ runId, message: `run ${runId}: the local copy of its record could not be written`, cause });
  const store =
    localCopy === null ? dependencies.store : withRunCopy(dependencies.store, localCopy, onCopyFailed);
  const runs: SupervisorContext["runs"] = new Map();
  const incarnation = new Incarnation({
    instanceId,
    checkLocks: locks === undefined ? null : () => locks.check(),
    clock,
    report,
    onTaken,
  });
  const leases = new LeaseRenewer({
    store,
    clock,
    instanceId,
    isCurrent: () => incarnation.isCurrent(),
    heldCount: () => runs.size,
    onMissing: (known) => {
      for (const live of [...runs.values()])
        if (!known.has(live.facts.runId) && !context.inserting.has(live.facts.runId))
          context.track(live.facts.runId, onLeaseMissing(live));
    },
    onError: (cause) =>
      report({ runId: null, message: "the leases could not be renewed; trying again", cause }),
  });
  const anchorMonitor = new AnchorMonitor(clock, () => runs.values());
  const context: SupervisorContext = {
    clock,
    store,
    localCopy,
    host,
    instanceId,
    stateId,
    actor,
    discardOutput,
    withheldEnv,
    leases,
    incarnation,
    incarnationId: dependencies.incarnation ?? newIncarnationId(),
    anchorMonitor,
    storeBreaker: new StoreCircuitBreaker(clock, () => {
      // The store accepts writes again: renew at once, so that runs can be controlled without waiting for the timer.
      if (leases.fenced) void leases.renew();
    }),
    waitForEndMs,
    runs,
    inserting: new Set(),
    closing: null,
    hasLostRuns: false,
    // An earlier process of this instance may have ended before it compared the store with the local copy.
    storeMayHaveRolledBack: true,
    comparedGeneration: 0,
    cleanedUp: new Set(),
    report,
    track: (runId, work) =>
      trackWork(
        work.catch((cause: unknown) =>
          report({ runId, message: `run ${runId}: ${errorMessage(cause)}`, cause }),
        ),
      ),
  };
  return { context, duties: { leases, incarnation, anchorMonitor } };
}
