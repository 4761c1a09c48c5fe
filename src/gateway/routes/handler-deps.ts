import type { AcpController } from "../../acp/controller.js";
import type { NativeObserver } from "../../anchor/native-observer.js";
import type { RunDirectories } from "../../anchor/run-dir/run-directories.js";
import type { ResponseOf } from "../../api/contract.js";
import type { ChannelEntries } from "../../config/channels.js";
import type { Config } from "../../config/schema.js";
import type { KnownAgents } from "../../queries/agents.js";
import type { ScreenCache } from "../../queries/screen.js";
import type { TaskQueryDeps } from "../../queries/tasks.js";
import type { Authorizer } from "../../sessions/authorizer.js";
import type { Requester } from "../../sessions/requester.js";
import type { SessionHistory } from "../../sessions/messages-and-inbox.js";
import type { GatewayWithStatus } from "../../model/gateway.js";
import type { Store } from "../../store/store.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { Deliver } from "../../tasks/delivery-attempt.js";
import type { ExecAuthorizationDeps } from "../auth/exec-authorization.js";
import type { OneShotAgents } from "../background/one-shot-agents.js";
import type { BackgroundServices } from "../background/open-background.js";
import type { ForegroundClients } from "../foreground/foreground-clients.js";
import type { RunStopper } from "../peers/remote-stops.js";
import type { DashboardLink } from "../../api/routes/dashboard.js";
import type { ShutdownPolicy, ShutdownSummary } from "../../api/routes/gateway.js";

/** The services of the route handlers. */
export interface HandlerDeps
  extends ExecAuthorizationDeps, Pick<BackgroundServices, "background" | "tasks" | "tail" | "wakeNotifier"> {
  readonly store: Store;
  readonly supervisor: Supervisor;
  readonly authorizer: Authorizer;
  readonly history: SessionHistory;
  readonly acp: AcpController;
  readonly agents: KnownAgents;
  readonly oneShotAgents: OneShotAgents;
  readonly runStopper: RunStopper;
  readonly foregroundClients: ForegroundClients;
  readonly screenCache: ScreenCache;
  readonly observer: NativeObserver;
  readonly runDirectories: RunDirectories;
  readonly channels: ChannelEntries;
  /** Rules of the config for permission requests of agents. */
  readonly permissionRules: Config["permissions"];
  /** Defaults of notifications. */
  readonly notify: Config["notify"];
  readonly deliver: Deliver;
  /** Defaults of exec requests. */
  readonly defaults: Config["defaults"];
  readonly notRestored: TaskQueryDeps["notRestored"];
  /** Called when waiting messages of a session were read. Never rejects. */
  readonly onRead: (sessionId: string) => Promise<void>;
  /** Throws when the gateway is stopping. */
  readonly assertAcceptingRuns: () => void;
  readonly gatewayStatus: () => Pick<
    ResponseOf<"status">,
    "home" | "startedAt" | "ready" | "storeWrites" | "listen"
  >;
  readonly listGateways: () => Promise<readonly GatewayWithStatus[]>;
  readonly health: () => Promise<ResponseOf<"health">>;
  readonly doctor: () => Promise<ResponseOf<"doctor">>;
  readonly dashboard: {
    /** Listens if needed, and returns a link that logs one browser in, with the rights of the requester. */
    open(requester: Requester, port: number | null): Promise<DashboardLink>;
    /** Ends all logins and links, and the listener. */
    close(): Promise<{ readonly closed: boolean }>;
  };
  readonly shutDown: (policy: ShutdownPolicy) => Promise<ShutdownSummary>;
}
