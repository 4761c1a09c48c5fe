import type { AcpController } from "../acp/controller.js";
import type { ThrottledCheck } from "../async/throttled-check.js";
import type { Config } from "../config/schema.js";
import type { AccessDenial } from "../sessions/authorizer.js";
import type { StoreWait } from "../store/retry-while-away.js";
import type { Store } from "../store/store.js";
import type { Problem, Run, Supervisor } from "../supervisor/api.js";
import type { BackgroundServices } from "./background/open-background.js";
import type { ForegroundClients } from "./foreground/foreground-clients.js";
import type { DeletedRecords } from "./periodic-jobs.js";
import type { Shutdown } from "./shutdown.js";

export interface ComposeOptions {
  readonly home: string;
  /** Owned and closed by the supervisor. */
  readonly store: Store;
  readonly supervisor: Supervisor;
  readonly foregroundClients: ForegroundClients;
  readonly startedAt: number;
  /** True if the runs of the former gateway have been reconciled. */
  readonly ready: () => boolean;
  /** Another process of this instance is the gateway now, so its record in the store stays. */
  readonly isReplaced: () => boolean;
  readonly config: Config;
  /** The timeout for receiving a request. */
  readonly requestMs: number;
  readonly onProblem: (problem: Problem) => void;
  /** Null: fail if the store is unreachable. */
  readonly storeWait: StoreWait | null;
  readonly onDenied: (denial: AccessDenial) => void;
}

/** The services of a running gateway. */
export interface GatewayServices extends AsyncDisposable {
  readonly stopRequested: Promise<void>;
  readonly shutdown: Shutdown;
  readonly acp: AcpController;
  /** Renews the gateway's record in the store. */
  heartbeat(): Promise<void>;
  /** Carries out stops that other gateways handed over. */
  processRemoteStops(): Promise<void>;
  /** Lets sessions of agents read the messages that other gateways stored for them. */
  checkInboxes(): Promise<void>;
  /** Makes tasks of runs that this gateway acquired. */
  registerRecoveredRuns(runs: readonly Run[]): void;
  maintainTasks: BackgroundServices["maintainTasks"];
  /** Records the results of one-shot agents that a former gateway started. */
  readonly unansweredPrompts: ThrottledCheck;
  applyRetention(): Promise<DeletedRecords>;
}
