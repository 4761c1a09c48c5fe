import type { ParsedRequestOf, ResponseOf } from "../../api/contract.js";
import type { RunRecord } from "../../model/run.js";
import type { KnownAgents } from "../../queries/agents.js";
import type { ScreenCache } from "../../queries/screen.js";
import type { SessionRecords } from "../../queries/sessions.js";
import type { Authorizer } from "../../sessions/authorizer.js";
import type { SessionHistory } from "../../sessions/history.js";
import type { Requester } from "../../sessions/requester.js";
import type { GatewayWithStatus } from "../../store/gateways/status.js";
import type { Store } from "../../store/store.js";
import type { TaskStore } from "../../store/tasks/store.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { RunProcesses } from "../../supervisor/inspect/live-processes.js";
import type { ExecAuthorizationDeps } from "../auth/exec-authorization.js";
import type { Background } from "../background/background.js";
import type { OneShotAgents } from "../background/one-shot-agents.js";
import type { ForegroundClients } from "../foreground/foreground-clients.js";
import type { RunStopper } from "../remote-stops/run-stopper.js";
import type { ShutdownPolicy, ShutdownSummary } from "../../api/routes/gateway.js";
import type { ChannelHandlerDeps } from "./channels.js";
import type { Config } from "../../config/schema.js";

export interface HandlerDeps extends ChannelHandlerDeps {
  readonly background: Background;
  /** False: the session has no open ACP agent. */
  readonly closeAgent: (sessionId: string, actor: string) => Promise<boolean>;
  /** Called when waiting messages of a session were read. Never rejects. */
  readonly onRead: (sessionId: string) => Promise<void>;
  readonly supervisor: Supervisor;
  readonly listProcesses: (record: RunRecord) => Promise<RunProcesses>;
  readonly runStopper: RunStopper;
  /** Stops a run whose record cannot be read through the gateway that holds it. */
  readonly stopThroughPeers: (
    requester: Requester,
    runId: string,
    body: ParsedRequestOf<"kill">["body"],
    unread: unknown,
  ) => Promise<ResponseOf<"kill">>;
  readonly authorizer: Authorizer;
  readonly execAuth: ExecAuthorizationDeps;
  readonly history: SessionHistory;
  readonly records: SessionRecords &
    Pick<TaskStore, "listTasks"> &
    Pick<Store, "listEvents" | "listScopedEvents" | "eventsReach">;
  readonly agents: KnownAgents;
  readonly oneShotAgents: OneShotAgents;
  readonly foregroundClients: ForegroundClients;
  readonly screenCache: ScreenCache;
  readonly defaults: ExecDefaults;
  readonly gatewayStatus: () => Promise<ResponseOf<"status">>;
  readonly listGateways: () => Promise<readonly GatewayWithStatus[]>;
  readonly shutDown: (policy: ShutdownPolicy) => Promise<ShutdownSummary>;
}

/** Defaults of exec requests. */
export type ExecDefaults = Config["defaults"];
