import type { RequestListener } from "node:http";
import { hostname } from "node:os";
import { join } from "node:path";
import { AcpController } from "../acp/controller.js";
import { agentsById, agentsFromConfig } from "../agents/catalogue.js";
import { findAnchorBinary } from "../anchor/binary/find.js";
import { openNativeObserver } from "../anchor/native-observer.js";
import { RunDirectories } from "../anchor/run-dir/run-directories.js";
import { deferred } from "../async/deferred.js";
import { retryWhileStoreAway, type StoreWait } from "../async/retry.js";
import { Bell } from "../channels/bell.js";
import { createDeliver, openChannels } from "../channels/deliver.js";
import type { Config } from "../config/schema.js";
import { StoreAway, SupervisorClosed } from "../errors.js";
import { observeMachineIdentity } from "../home/machine-identity.js";
import { packageVersion } from "../home/package.js";
import { directoryIdOf, stateIdOf } from "../home/persistent-id.js";
import { OPEN_RUN_STATES, type RunRecord } from "../model/run.js";
import { ScreenCache } from "../queries/screen.js";
import { resolveTask } from "../queries/tasks.js";
import { openApprovals } from "../sessions/approvals.js";
import { type AccessDenial, Authorizer } from "../sessions/authorizer.js";
import { SessionHistory } from "../sessions/history.js";
import { loadOrCreateOperatorToken } from "../sessions/requester.js";
import { Sessions } from "../sessions/sessions.js";
import { listGatewaysWithStatus } from "../store/gateways/status.js";
import { localCopyDirectory } from "../store/local-copy/run-copy.js";
import { readUnrestored } from "../store/local-copy/unrestored.js";
import { watchEvents } from "../store/open.js";
import type { Store } from "../store/store.js";
import type { Problem, Run, Supervisor } from "../supervisor/api.js";
import { listProcessesOfRun } from "../supervisor/inspect/live-processes.js";
import { runMessageAsTask } from "./background/message-task.js";
import { OneShotAgents } from "./background/one-shot-agents.js";
import { type BackgroundServices, openBackground } from "./background/open.js";
import { acknowledgeReadMessages } from "./background/read-receipts.js";
import type { ForegroundClients } from "./foreground/foreground-clients.js";
import { Metrics } from "./monitoring/metrics.js";
import { StoreHealth } from "./monitoring/store-health.js";
import { AcpSessionLocator, RunLocator } from "./peers/locators.js";
import { PeerDirectory } from "./peers/peer-directory.js";
import { detectCapabilities, GatewayRegistration } from "./registration.js";
import { RemoteStopExecutor } from "./remote-stops/executor.js";
import { RunStopper } from "./remote-stops/run-stopper.js";
import { stopThroughPeers } from "./remote-stops/through-peers.js";
import { applyRetention, type DeletedRecords } from "./retention.js";
import type { AcpHandlerDeps } from "./routes/acp.js";
import { countOpenRuns } from "./routes/gateway.js";
import { createRouteHandlers } from "./routes/route-handlers.js";
import type { TaskHandlerDeps } from "./routes/tasks.js";
import { AdmissionControl } from "./server/admission-control.js";
import { Attachments } from "./server/attachments.js";
import { EventFollower } from "./server/event-follower.js";
import { SessionStorageQuota } from "./server/limits.js";
import { createListenerPolicies, type ListenerPolicy } from "./server/listener-policy.js";
import { type Listeners, openListeners } from "./server/listeners.js";
import { createRouter } from "./server/router.js";
import { createStreamingRoutes } from "./server/streaming-routes.js";
import { Shutdown } from "./shutdown.js";

export interface ComposeOptions {
  readonly home: string;
  /** Owned and closed by the supervisor. */
  readonly store: Store;
  readonly supervisor: Supervisor;
  readonly foregroundClients: ForegroundClients;
  readonly startedAt: number;
  /** Whether the runs of the former gateway have been reconciled. */
  readonly ready: () => boolean;
  /** Another process of this instance is the gateway now, so its record in the store stays. */
  readonly isReplaced: () => boolean;
  readonly config: Config;
  /** The timeout for receiving a request. */
  readonly requestMs: number;
  readonly onProblem: (onProblem: Problem) => void;
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
  /** Makes tasks of runs that this gateway acquired. */
  registerRecoveredRuns(runs: readonly Run[]): void;
  maintainTasks: BackgroundServices["maintainTasks"];
  /** Records the results of one-shot agents that a former gateway started. */
  settleAgentRuns(): Promise<void>;
  applyRetention(): Promise<DeletedRecords>;
}

export async function composeGateway(options: ComposeOptions): Promise<GatewayServices> {
  const {
    home,
    store,
    supervisor,
    foregroundClients,
    startedAt,
    ready,
    config,
    requestMs,
    onProblem,
    onDenied,
  } = options;
  const { instanceId } = supervisor;
  const machine = await observeMachineIdentity(home);
  const stateId = await stateIdOf(home);
  const capabilities = await detectCapabilities();
  const { hostId, bootId, pidNamespace } = machine;
  const registration = new GatewayRegistration(store, {
    instanceId,
    hostId,
    bootId,
    pidNamespace,
    hostName: hostname(),
    stateId,
    directory: await directoryIdOf(home),
    version: packageVersion(),
    capabilities,
    address: null,
    peerKey: null,
    startedAt,
  });
  const approvals = await retryWhileStoreAway(async () => {
    await registration.register();
    return openApprovals({
      store,
      gatewayInstanceId: instanceId,
      onProblem: (message, cause) => onProblem({ runId: null, message, cause }),
    });
  }, options.storeWait);
  const sessions = new Sessions({
    store,
    approvals,
    gatewayInstanceId: instanceId,
    a2aPolicy: config.a2a,
    visibility: config.visibility.default,
    execRules: config.exec,
  });
  const history = new SessionHistory(store);
  const bell = new Bell();
  const channels = openChannels(config.channels, { supervisor, bell });
  const deliver = createDeliver(channels, history);
  const own = agentsFromConfig(config.agents);
  const agents = { all: agentsById(own), own: new Set(own.map(({ id }) => id)) };
  // A failure is repaired by the next periodic job.
  const onRead = (sessionId: string): Promise<void> =>
    acknowledgeReadMessages(store, sessionId).catch(() => undefined);
  const onDelivered = (sessionId: string): void => void onRead(sessionId);
  const oneShotAgents = new OneShotAgents({
    ...{ supervisor, sessions, history, store, onProblem, onDelivered },
    agents: agents.all,
  });
  const stopRequested = deferred<void>();
  let stopping = false;
  let listeners: Listeners | null = null;
  const peerDirectory = new PeerDirectory(home, instanceId);
  if (store.shared) await peerDirectory.load();
  const runLocator = new RunLocator({ store, instanceId, hostId: machine.hostId, stateId });
  const assertOpen = (): void => {
    if (stopping) throw new SupervisorClosed(instanceId, "its gateway stops; nothing was done");
  };
  const authorizer = new Authorizer(sessions, onDenied);
  const screenCache = new ScreenCache(supervisor);
  const acp = new AcpController({
    supervisor,
    store,
    sessions,
    agents: agents.all,
    passEnv: config.environment.pass,
    onProblem: (message, cause) => onProblem({ runId: null, message, cause }),
    startMessageTurn: (message, turnId, begin) =>
      runMessageAsTask({ background, sessions }, message, turnId, begin),
    onDelivered,
  });
  const inboxSubscription = history.onMessage((sessionId) => acp.onMessageWaiting(sessionId));
  const shutdown = new Shutdown(supervisor, foregroundClients, acp);
  const execAuth = { sessions, approvals, passEnv: config.environment.pass };
  const backgroundServices = openBackground({
    ...{
      store,
      supervisor,
      sessions,
      acp,
      oneShotAgents,
      channels,
      deliver,
      instanceId,
      onProblem,
    },
    isHere: (run) => !store.shared || run.stateId === stateId,
  });
  const { background } = backgroundServices;
  const runStopper = new RunStopper({ supervisor, store, runLocator });
  const operator = await loadOrCreateOperatorToken(home);
  const taskDeps: TaskHandlerDeps = {
    ...{ ...backgroundServices, store, supervisor, runStopper, acp, authorizer, channels: config.channels },
    notRestored: () => readUnrestored(localCopyDirectory(home)),
  };
  const getRun = (runId: string): Promise<RunRecord | null> => supervisor.getRun(runId);
  const acpDeps: AcpHandlerDeps = {
    ...{ acp, store, sessions, execAuth, authorizer, getRun, background, channels: config.channels },
    assertAcceptingRuns: () => shutdown.assertAcceptingRuns(),
    recordTaskInRunDirectory: async (sessionId: string, taskId: string) => {
      const session = await store.getAcpSession(sessionId).catch(() => null);
      if (session === null || session.runId === null) return;
      // The store has it, too. A full disk must not prevent a turn.
      const runs = new RunDirectories(join(home, "instances", instanceId));
      await runs.addTask(session.runId, taskId).catch(() => undefined);
    },
  };
  const observer = openNativeObserver(home, machine, findAnchorBinary());
  const health = new StoreHealth({
    store,
    supervisor,
    instanceId,
    onProblem: (message, cause) => onProblem({ runId: null, message, cause }),
  });
  const handlers = createRouteHandlers(
    {
      supervisor,
      listProcesses: async (record) =>
        listProcessesOfRun(
          observer,
          record,
          await supervisor.listRuns({ states: OPEN_RUN_STATES, withoutLabels: true }),
          {
            ports: record.service !== null,
          },
        ),
      runStopper,
      stopThroughPeers: (requester, runId, body, unread) =>
        stopThroughPeers({ peerDirectory, instanceId }, requester, runId, body, unread),
      foregroundClients,
      screenCache,
      authorizer,
      execAuth,
      background,
      closeAgent: async (sessionId, actor) => {
        const session = await store.getAcpSession(sessionId);
        if (session === null || session.state === "closed") return false;
        await acp.closeSession(sessionId, { actor });
        return true;
      },
      history,
      onRead,
      records: store,
      agents,
      oneShotAgents,
      channels: config.channels,
      deliver,
      assertAcceptingRuns: () => shutdown.assertAcceptingRuns(),
      defaults: config.defaults,
      gatewayStatus: async () => ({
        instanceId: instanceId,
        version: packageVersion(),
        pid: process.pid,
        home,
        startedAt,
        ready: ready() && !stopping,
        ...(await countOpenRuns(supervisor)),
        storeWrites: health.get(),
        tier: null,
        listen: listeners?.listen ?? null,
      }),
      listGateways: () => listGatewaysWithStatus(store, machine.bootId, Date.now()),
      shutDown: async (policy) => {
        const done = await shutdown.request(policy);
        // Gives the response time to be sent.
        setTimeout(() => stopRequested.resolve(), 10);
        return done;
      },
    },
    acpDeps,
    taskDeps,
  );
  const events = new EventFollower(store);
  const targets = [stateId, instanceId];
  const onStopFailure = (runId: string, cause: unknown): void => {
    if (stopping) return;
    onProblem({
      runId,
      message: `run ${runId}: a stop from another gateway failed; retrying`,
      cause,
    });
  };
  const remoteStopExecutor = new RemoteStopExecutor({
    supervisor,
    store,
    runLocator,
    targets,
    onFailure: onStopFailure,
  });
  const watch = await watchEvents(
    instanceId,
    () => events.wake(),
    (target) => {
      // A failure is repaired by the next periodic job.
      if (ready() && (target === null || targets.includes(target)))
        void remoteStopExecutor.poll().catch(() => undefined);
    },
  );
  const metrics = new Metrics(
    supervisor,
    observer,
    backgroundServices.metrics,
    store.shared ? { stateId } : {},
    health,
  );
  await metrics.start();
  const streamingRoutes = createStreamingRoutes(
    supervisor,
    events,
    authorizer,
    metrics,
    approvals,
    acpDeps,
    taskDeps,
  );
  const admissionControl = new AdmissionControl();
  const storageQuota = new SessionStorageQuota(store);
  const router = (policy: ListenerPolicy): RequestListener =>
    createRouter({
      handlers,
      streamingRoutes,
      policy,
      admissionControl,
      assertStorageRoom: (requester) => storageQuota.assertRoom(requester),
      isStopping: () => stopping,
      onFailure: (cause, what) => onProblem({ runId: null, message: `${what} failed`, cause }),
    });
  const attachments = new Attachments({
    supervisor,
    foregroundClients,
    authorizer,
    admissionControl,
    bell,
    assertOpen,
  });
  const acpSessionLocator = new AcpSessionLocator({
    store,
    instanceId,
    authorizer,
    isLost: (session) => acp.isLost(session),
    resolveTask: (requester, id) => resolveTask(taskDeps, requester, id),
  });
  const { tokenPolicy, peerPolicy } = createListenerPolicies({
    store,
    supervisor,
    authorizer,
    sessions,
    operator,
    runLocator,
    acpSessionLocator,
    peerDirectory,
  });
  listeners = await openListeners({
    ...{ home, instanceId, config, requestMs, router, attachments, tokenPolicy, peerPolicy },
    shared: store.shared,
    onProblem: (message, cause) => onProblem({ runId: null, message, cause }),
  });
  if (listeners.peerEndpoint !== null)
    await registration.setAddress(listeners.peerEndpoint).catch((error: unknown) => {
      // The next heartbeat writes the address.
      if (!(error instanceof StoreAway)) throw error;
    });
  return {
    stopRequested: stopRequested.promise,
    shutdown,
    acp,
    settleAgentRuns: () => oneShotAgents.settleUnanswered(),
    registerRecoveredRuns: (runs) => background.registerRecoveredRuns(runs),
    maintainTasks: () => backgroundServices.maintainTasks(),
    heartbeat: async () => {
      await health.check(() => registration.heartbeat());
      if (store.shared) await peerDirectory.refresh(store);
    },
    processRemoteStops: async () => {
      if (store.shared) acp.checkInboxes();
      await remoteStopExecutor.poll();
    },
    applyRetention: () => applyRetention(store, sessions, instanceId),
    async [Symbol.asyncDispose]() {
      stopping = true;
      foregroundClients[Symbol.dispose]();
      inboxSubscription[Symbol.dispose]();
      await backgroundServices[Symbol.asyncDispose]();
      await metrics[Symbol.asyncDispose]();
      await watch[Symbol.asyncDispose]();
      await observer[Symbol.asyncDispose]();
      await attachments[Symbol.asyncDispose]();
      await acp[Symbol.asyncDispose]();
      await listeners?.[Symbol.asyncDispose]();
      await screenCache[Symbol.asyncDispose]();
      await approvals[Symbol.asyncDispose]();
      await oneShotAgents[Symbol.asyncDispose]();
      if (!options.isReplaced()) await registration[Symbol.asyncDispose]();
    },
  };
}
