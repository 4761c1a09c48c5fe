import type { RequestListener } from "node:http";
import { join } from "node:path";
import { AcpController } from "../acp/controller.js";
import { agentsById, agentsFromConfig } from "../agents/catalogue.js";
import { findAnchorBinary } from "../anchor/binary.js";
import { openNativeObserver } from "../anchor/native-observer.js";
import { RunDirectories } from "../anchor/run-dir/run-directories.js";
import { deferred } from "../async/deferred.js";
import { Bell } from "../channels/bell.js";
import { createDeliver, openChannels } from "../channels/deliver.js";
import { StoreAway, SupervisorClosed } from "../errors.js";
import { observeMachineIdentity } from "../home/machine-identity.js";
import { gatewaySocketPath } from "../home/state-directory.js";
import { stateIdOf } from "../home/state-id.js";
import { ScreenCache } from "../queries/screen.js";
import { resolveTask } from "../queries/tasks.js";
import { type ApprovalView, openApprovals } from "../sessions/approvals.js";
import { Authorizer } from "../sessions/authorizer.js";
import { SessionHistory } from "../sessions/messages-and-inbox.js";
import { loadOrCreateOperatorToken } from "../sessions/tokens.js";
import { Sessions } from "../sessions/sessions.js";
import { listGatewaysWithStatus } from "../store/gateways/queries.js";
import { localCopyDirectory } from "../store/local-copy/run-copy.js";
import { readUnrestored } from "../store/local-copy/task-copy.js";
import { watchEvents } from "../store/open.js";
import { retryWhileStoreAway } from "../store/retry-while-away.js";
import { acknowledgeReadMessages } from "./background/read-receipts.js";
import { OneShotAgents } from "./background/one-shot-agents.js";
import { SessionDelivery } from "./background/session-delivery.js";
import { runMessageAsTask } from "./background/run-message-as-task.js";
import { openBackground } from "./background/open-background.js";
import {
  createWaitingNotifier,
  waitingApproval,
  waitingPermission,
  type WaitingQuestion,
} from "./background/waiting-notifier.js";
import { Dashboard } from "./dashboard/dashboard.js";
import { EventFollower } from "./monitoring/event-follower.js";
import { createDoctor } from "./doctor/doctor.js";
import { HealthHistory } from "./monitoring/health-history.js";
import { Metrics } from "./monitoring/metrics.js";
import { StoreHealth } from "./monitoring/store-write-health.js";
import { AcpSessionLocator, RunLocator } from "./peers/run-and-session-locators.js";
import { PeerDirectory } from "./peers/peer.js";
import { RemoteStopExecutor, RunStopper } from "./peers/remote-stops.js";
import { applyRetention } from "./periodic-jobs.js";
import type { ComposeOptions, GatewayServices } from "./gateway-services.js";
import { createRegistration } from "./registration.js";
import type { HandlerDeps } from "./routes/handler-deps.js";
import { AdmissionControl } from "./server/admission-control.js";
import { Attachments } from "./server/run-attachments.js";
import { SessionStorageQuota } from "./server/request-limits.js";
import {
  createListenerPolicies,
  type ListenerPolicy,
  type Listeners,
  openListeners,
} from "./server/listeners.js";
import { McpEndpoint } from "./server/mcp-endpoint.js";
import { createRouteHandlers, createRouter } from "./server/router.js";
import { createStreamingRoutes } from "./server/streaming-routes.js";
import { Shutdown } from "./shutdown.js";

export async function composeGateway(options: ComposeOptions): Promise<GatewayServices> {
  const { home, store, supervisor, foregroundClients, startedAt, ready, config, requestMs, onProblem } =
    options;
  const { instanceId } = supervisor;
  const report = (message: string, cause: unknown): void => onProblem({ runId: null, message, cause });
  const machine = await observeMachineIdentity(home);
  const stateId = await stateIdOf(home);
  const registration = await createRegistration(store, home, machine, { instanceId, stateId, startedAt });
  // Set when the channels are open; before, no session can ask.
  let notifyOfQuestion: (question: WaitingQuestion) => void = () => undefined;
  const approvals = await retryWhileStoreAway(async () => {
    await registration.register();
    const onChange = (approval: ApprovalView): void => {
      const question = waitingApproval(approval);
      if (question !== null) notifyOfQuestion(question);
    };
    return openApprovals({ store, gatewayInstanceId: instanceId, onChange, onProblem: report });
  }, options.storeWait);
  const sessions = new Sessions({
    store,
    approvals,
    gatewayInstanceId: instanceId,
    a2aPolicy: config.a2a,
    visibility: config.visibility.default,
    execRules: config.exec,
  });
  const authorizer = new Authorizer(sessions, options.onDenied);
  const history = new SessionHistory(store);
  const bell = new Bell();
  const channels = openChannels(config.channels, { supervisor, bell });
  const waker = new SessionDelivery({ store, history, onNotice: () => backgroundServices.wakeNotifier() });
  const deliver = createDeliver(channels, history, (target, notification) =>
    waker.deliver(target, notification),
  );
  notifyOfQuestion = createWaitingNotifier({ store, sessions, deliver, onProblem: report });
  const targetDeps = { store, channels: config.channels, notify: config.notify };
  const own = agentsFromConfig(config.agents);
  const agents = { all: agentsById(own), own: new Set(own.map(({ id }) => id)) };
  // A failure is repaired by the next periodic job.
  const onRead = (sessionId: string): Promise<void> =>
    acknowledgeReadMessages(store, { sessionId, waker }).catch(() => undefined);
  // In the next turn of the event loop: the answer to the prompt is sent first.
  const onDelivered = (sessionId: string): void => void setImmediate(() => void onRead(sessionId));
  const oneShotAgents = new OneShotAgents({
    ...{ supervisor, sessions, history, store, onProblem, onDelivered },
    agents: agents.all,
  });
  const passEnv = config.environment.pass;
  const acp = new AcpController({
    ...{ supervisor, store, sessions, passEnv, onDelivered },
    agents: agents.all,
    permissionRules: config.permissions,
    mcpServers: config.mcp,
    onProblem: report,
    onPermissionWaiting: (permission) => notifyOfQuestion(waitingPermission(permission)),
    startMessageTurn: (message, turnId, begin) =>
      runMessageAsTask(
        { background: backgroundServices.background, sessions, ...targetDeps },
        message,
        turnId,
        begin,
      ),
  });
  const inboxSubscription = history.onMessage((sessionId) => acp.onMessageWaiting(sessionId));
  const backgroundServices = openBackground({
    ...{ store, supervisor, sessions, acp, oneShotAgents, channels, deliver, instanceId, onProblem },
    ...{ waker },
    isHere: (run) => !store.shared || run.stateId === stateId,
  });
  const shutdown = new Shutdown(supervisor, foregroundClients, acp);
  const stopRequested = deferred<void>();
  let stopping = false;
  let listeners: Listeners | null = null;

  const peerDirectory = new PeerDirectory(home, instanceId);
  if (store.shared) await peerDirectory.load();
  const runLocator = new RunLocator({ store, instanceId, hostId: machine.hostId, stateId });
  const runStopper = new RunStopper({ supervisor, store, runLocator, peerDirectory });
  const targets = [stateId, instanceId];
  const remoteStopExecutor = new RemoteStopExecutor({
    ...{ supervisor, store, runLocator, targets },
    onFailure: (runId, cause) => {
      const message = `run ${runId}: a stop from another gateway failed; retrying`;
      if (!stopping) onProblem({ runId, message, cause });
    },
  });
  const events = new EventFollower(store);
  const watch = await watchEvents(
    instanceId,
    () => events.wake(),
    (target) => {
      // A failure is repaired by the next periodic job.
      if (ready() && (target === null || targets.includes(target)))
        void remoteStopExecutor.poll().catch(() => undefined);
    },
  );

  const observer = openNativeObserver(home, machine, findAnchorBinary());
  const health = new StoreHealth({ store, supervisor, instanceId, onProblem: report });
  const ours = store.shared ? { stateId } : {};
  const metrics = new Metrics(supervisor, observer, backgroundServices.metrics, ours, health);
  await metrics.start();
  const { totals } = metrics;
  const healthHistory = new HealthHistory({ totals, health, held: () => supervisor.held });

  const screenCache = new ScreenCache(supervisor);
  const deps: HandlerDeps = {
    ...backgroundServices,
    ...{ store, supervisor, sessions, approvals, passEnv, authorizer, history, acp, agents, oneShotAgents },
    ...{ runStopper, foregroundClients, screenCache, observer, deliver, onRead },
    runDirectories: new RunDirectories(join(home, "instances", instanceId)),
    ...targetDeps,
    permissionRules: config.permissions,
    defaults: config.defaults,
    notRestored: () => readUnrestored(localCopyDirectory(home)),
    assertAcceptingRuns: () => shutdown.assertAcceptingRuns(),
    gatewayStatus: () => ({
      home,
      startedAt,
      ready: ready() && !stopping,
      storeWrites: health.get(),
      listen: listeners?.listen ?? null,
    }),
    listGateways: () => listGatewaysWithStatus(store, machine.bootId, Date.now()),
    health: async () => {
      await metrics.catchUp();
      const reconciled = totals.reconciled.toReversed();
      return { samples: [...healthHistory.samples()], cleaned: totals.cleaned, reconciled };
    },
    doctor: createDoctor(home),
    dashboard: {
      open: (requester, port) => dashboard.open(requester, port),
      close: () => dashboard.close(),
    },
    shutDown: async (policy) => {
      const done = await shutdown.request(policy);
      // Gives the response time to be sent.
      setTimeout(() => stopRequested.resolve(), 10);
      return done;
    },
  };
  const handlers = createRouteHandlers(deps);
  const streamingRoutes = createStreamingRoutes(deps, events, metrics);
  const admissionControl = new AdmissionControl();
  const storageQuota = new SessionStorageQuota(store);
  const mcpEndpoint = new McpEndpoint(gatewaySocketPath(home));
  const router = (policy: ListenerPolicy): RequestListener =>
    createRouter({
      ...{ handlers, streamingRoutes, mcpEndpoint, policy, admissionControl },
      assertStorageRoom: (requester) => storageQuota.assertRoom(requester),
      isStopping: () => stopping,
      onFailure: (cause, what) => report(`${what} failed`, cause),
    });
  const attachments = new Attachments({
    ...{ supervisor, foregroundClients, authorizer, admissionControl, bell },
    assertOpen: () => {
      if (stopping) throw new SupervisorClosed(instanceId, "its gateway stops; nothing was done");
    },
  });
  const acpSessionLocator = new AcpSessionLocator({
    ...{ store, instanceId, authorizer },
    isLost: (session) => acp.isLost(session),
    resolveTask: (requester, id) => resolveTask(deps, requester, id),
  });
  const policies = createListenerPolicies({
    ...{ store, supervisor, authorizer, sessions, runLocator, acpSessionLocator, peerDirectory },
    operator: await loadOrCreateOperatorToken(home),
  });
  const served = { requestMs, router, onUpgrade: attachments.upgrade.bind(attachments), onProblem: report };
  const dashboard = new Dashboard({
    ...{ ...served, sessions, tokenPolicy: policies.tokenPolicy },
    path: join(home, "instances", instanceId, "dashboard.json"),
  });
  listeners = await openListeners({
    ...{ ...served, ...policies, home, instanceId, config },
    shared: store.shared,
  });
  await dashboard.restore();
  if (listeners.peerEndpoint !== null)
    await registration.setAddress(listeners.peerEndpoint).catch((error: unknown) => {
      // The next heartbeat writes the address.
      if (!(error instanceof StoreAway)) throw error;
    });
  return {
    stopRequested: stopRequested.promise,
    shutdown,
    acp,
    unansweredPrompts: oneShotAgents.unanswered,
    registerRecoveredRuns: (runs) => backgroundServices.background.registerRecoveredRuns(runs),
    maintainTasks: () => backgroundServices.maintainTasks(),
    heartbeat: async () => {
      await health.check(() => registration.heartbeat());
      if (store.shared) await peerDirectory.refresh(store);
    },
    processRemoteStops: () => remoteStopExecutor.poll(),
    checkInboxes: async () => {
      if (store.shared) acp.checkInboxes();
    },
    applyRetention: () => applyRetention(store, sessions, instanceId),
    async [Symbol.asyncDispose]() {
      stopping = true;
      foregroundClients[Symbol.dispose]();
      inboxSubscription[Symbol.dispose]();
      await backgroundServices[Symbol.asyncDispose]();
      healthHistory[Symbol.dispose]();
      await metrics[Symbol.asyncDispose]();
      await watch[Symbol.asyncDispose]();
      await observer[Symbol.asyncDispose]();
      await attachments[Symbol.asyncDispose]();
      await mcpEndpoint[Symbol.asyncDispose]();
      await acp[Symbol.asyncDispose]();
      await dashboard[Symbol.asyncDispose]();
      await listeners?.[Symbol.asyncDispose]();
      await screenCache[Symbol.asyncDispose]();
      await approvals[Symbol.asyncDispose]();
      await oneShotAgents[Symbol.asyncDispose]();
      if (!options.isReplaced()) await registration[Symbol.asyncDispose]();
    },
  };
}
