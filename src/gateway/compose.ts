import type { RequestListener } from "node:http";
import { hostname } from "node:os";
import { join } from "node:path";
import { AcpController } from "../acp/controller.js";
import { agentsById, agentsFromConfig } from "../agents/catalogue.js";
import { findAnchorBinary } from "../anchor/binary/find.js";
import { openNativeObserver } from "../anchor/native-observer.js";
import { RunDirectories } from "../anchor/run-dir/run-directories.js";
import { tokenIdFromHash } from "../api/token-proof.js";
import { systemClock } from "../async/clock.js";
import { deferred } from "../async/deferred.js";
import { retryWhileStoreAway, type StoreWait } from "../async/retry.js";
import { Bell } from "../channels/bell.js";
import { createDeliver } from "../channels/deliver.js";
import { openChannels } from "../channels/open-channels.js";
import type { Config } from "../config/schema.js";
import { defaults } from "../defaults.js";
import { StoreAway, SupervisorClosed } from "../errors.js";
import { observeMachineIdentity } from "../home/machine-identity.js";
import { packageVersion } from "../home/package.js";
import { directoryIdOf, stateIdOf } from "../home/persistent-id.js";
import { OPEN_RUN_STATES, type RunRecord } from "../model/run.js";
import { ScreenCache } from "../queries/screen.js";
import { createTaskCursorCodec } from "../queries/task-cursor.js";
import { resolveTask } from "../queries/tasks.js";
import { openApprovals } from "../sessions/approvals.js";
import { type AccessDenial, Authorizer } from "../sessions/authorizer.js";
import { SessionHistory } from "../sessions/history.js";
import { loadOrCreateOperatorToken, type Requester, tokensEqual } from "../sessions/requester.js";
import { hashSessionToken } from "../sessions/session-token.js";
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
import { CLI_BACKEND } from "../model/session.js";
import { type BackgroundServices, openBackground } from "./background/open.js";
import { acknowledgeReadMessages } from "./background/read-receipts.js";
import type { ForegroundClients } from "./foreground/foreground-clients.js";
import { Metrics } from "./monitoring/metrics.js";
import { StoreHealth } from "./monitoring/store-health.js";
import { AcpSessionLocator, RunLocator } from "./peers/locators.js";
import { parseOnBehalfOf } from "./peers/on-behalf-of.js";
import { PeerDirectory } from "./peers/peer-directory.js";
import { detectCapabilities, GatewayRegistration } from "./registration.js";
import { RemoteStopExecutor } from "./remote-stops/executor.js";
import { RunStopper } from "./remote-stops/run-stopper.js";
import { stopThroughPeers } from "./remote-stops/through-peers.js";
import type { AcpHandlerDeps } from "./routes/acp.js";
import { createRouteHandlers } from "./routes/route-handlers.js";
import type { TaskHandlerDeps } from "./routes/tasks.js";
import { AdmissionControl } from "./server/admission-control.js";
import { Attachments } from "./server/attachments.js";
import { EventFollower } from "./server/event-follower.js";
import { ConnectionLimiter, SessionStorageQuota } from "./server/limits.js";
import type { ListenerPolicy } from "./server/listener-policy.js";
import { type Listeners, openListeners } from "./server/listeners.js";
import type { AllowedHosts } from "./server/loopback-listener.js";
import { authenticateRequest, createRouter } from "./server/router.js";
import { createStreamingRoutes } from "./server/streaming-routes.js";
import { Shutdown } from "./shutdown.js";

export interface ComposeOptions {
  readonly home: string;
  /** The supervisor's, which closes it. */
  readonly store: Store;
  readonly supervisor: Supervisor;
  readonly foregroundClients: ForegroundClients;
  readonly startedAt: number;
  /** Whether what was left has been looked at. */
  readonly ready: () => boolean;
  /** Another process of the instance is the gateway now: its row in the store stays. */
  readonly isReplaced: () => boolean;
  readonly config: Config;
  /** How long a caller may take to say what it wants. */
  readonly requestMs: number;
  readonly onProblem: (onProblem: Problem) => void;
  /** Null: a store that is away is not waited for. */
  readonly storeWait: StoreWait | null;
  readonly onDenied: (denial: AccessDenial) => void;
}

/** Where a gateway is asked: its API, with who may ask what. */
export interface GatewayServices extends AsyncDisposable {
  readonly stopRequested: Promise<void>;
  readonly shutdown: Shutdown;
  readonly acp: AcpController;
  /** Say that it is still there. */
  heartbeat(): Promise<void>;
  /** Take up what other gateways have handed over. */
  processRemoteStops(): Promise<void>;
  /** Runs that this gateway has got from others, or from a former one. */
  registerRecoveredRuns(runs: readonly Run[]): void;
  maintainTasks: BackgroundServices["maintainTasks"];
  /** See to the answers of agents' commands that a former gateway started. */
  settleAgentRuns(): Promise<void>;
  /**
   * Forget sessions that were closed, questions that were answered, what was said or handed over, and gateways that left, long
   * ago; end those of commands that nobody went on with.
   */
  applyRetention(): Promise<{
    readonly sessions: number;
    readonly approvals: number;
    readonly messages: number;
    readonly updates: number;
  }>;
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
  // Lost or failed, it is found at the next round.
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
    cursors: createTaskCursorCodec(operator),
    notRestored: () => readUnrestored(localCopyDirectory(home)),
  };
  const getRun = (runId: string): Promise<RunRecord | null> => supervisor.getRun(runId);
  const acpDeps: AcpHandlerDeps = {
    ...{ acp, store, sessions, execAuth, authorizer, getRun, background, channels: config.channels },
    assertAcceptingRuns: () => shutdown.assertAcceptingRuns(),
    recordTaskInRunDirectory: async (sessionId: string, taskId: string) => {
      const session = await store.getAcpSession(sessionId).catch(() => null);
      if (session === null || session.runId === null) return;
      // The store has it too: a full disk must not keep a turn from being asked for.
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
        // After the answer is on its way.
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
      message: `run ${runId}: what was handed over was not carried out; trying again`,
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
      // Lost or failed, it is found at the next round.
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
  const authenticate = (token: string): Promise<Requester | null> =>
    authenticateToken(sessions, operator, token);
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
  /** Null: it is held here, or it may not be seen, which is said here. */
  const findRemoteRun = async (requester: Requester, runId: string): Promise<RunRecord | null> => {
    if (!store.shared || supervisor.run(runId) !== null) return null;
    const record = await supervisor.getRun(runId);
    return record !== null && (await authorizer.canSeeRunsOf(requester)(record.sessionId)) ? record : null;
  };
  const acpSessionLocator = new AcpSessionLocator({
    store,
    instanceId,
    authorizer,
    isLost: (session) => acp.isLost(session),
    resolveTask: (requester, id) => resolveTask(taskDeps, requester, id),
  });
  const connectionLimiter = new ConnectionLimiter();
  const tokenPolicy = (allowedHosts: AllowedHosts | null): ListenerPolicy => ({
    allowedHosts,
    connectionLimiter,
    authenticate: (request) => authenticateRequest(authenticate, request),
    findTokenHash: (tokenId) => findTokenHash(sessions, operator, tokenId),
    peersOnly: false,
    locateRun: async (requester, runId) => runLocator.peerFor(await findRemoteRun(requester, runId)),
    locateAcpSession: (requester, verb, id) => acpSessionLocator.peerFor(requester, verb, id),
  });
  const peerPolicy: ListenerPolicy = {
    allowedHosts: null,
    connectionLimiter: null,
    authenticate: (request) => parseOnBehalfOf(store, peerDirectory, sessions, request),
    findTokenHash: null,
    peersOnly: true,
    locateRun: async (requester, runId) => runLocator.assertLocal(await findRemoteRun(requester, runId)),
    locateAcpSession: (requester, verb, id) => acpSessionLocator.assertLocal(requester, verb, id),
  };
  listeners = await openListeners({
    ...{ home, instanceId, config, requestMs, router, attachments, tokenPolicy, peerPolicy },
    shared: store.shared,
    onProblem: (message, cause) => onProblem({ runId: null, message, cause }),
  });
  if (listeners.peerEndpoint !== null)
    await registration.setAddress(listeners.peerEndpoint).catch((error: unknown) => {
      // Said with the next beat.
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
    applyRetention: async () => {
      await store.deleteRemoteStops(defaults.commandsKeptMs);
      await store.deleteSilentGateways(defaults.gatewaysKeptMs);
      await store.deleteEndedTokens(Date.now());
      return {
        approvals: await store.deleteDecidedApprovals(Date.now() - defaults.approvalsKeptMs),
        messages: await store.deleteSettledMessages(Date.now() - defaults.messagesKeptMs),
        updates: await store.deleteAcpUpdates(Date.now() - defaults.acpUpdatesKeptMs),
        sessions:
          (await closeIdleSessions(sessions, instanceId)) +
          (await store.deleteClosedSessions(Date.now() - defaults.sessionsKeptMs)),
      };
    },
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

/** A gateway says how it is whatever the store does: what stops runs asks it first. */
async function countOpenRuns(
  supervisor: Supervisor,
): Promise<{ readonly runs: number; readonly storeAway: string | null }> {
  const held = (storeAway: string) => ({ runs: supervisor.held, storeAway });
  const listed = supervisor
    .scope()
    .then((mine) =>
      supervisor.listRunsOrLocal(
        { ...mine, states: OPEN_RUN_STATES, withoutLabels: true },
        defaults.localAnswerMs,
      ),
    );
  const stopRequested = listed.then(
    ({ runs, storeAway }) => (storeAway === null ? { runs: runs.length, storeAway } : held(storeAway)),
    (error: unknown) => held(error instanceof Error ? error.message : String(error)),
  );
  const late = systemClock
    .sleep(defaults.storeAnswerMs, stopRequested)
    .then(() => held("the store does not answer"));
  return Promise.race([stopRequested, late]);
}

async function authenticateToken(
  sessions: Sessions,
  operator: string,
  token: string,
): Promise<Requester | null> {
  if (tokensEqual(token, operator)) return { kind: "operator", actor: "operator" };
  const session = await sessions.authenticate(token);
  if (session === null) return null;
  const tokenIsGood = async (): Promise<boolean> => (await sessions.authenticate(token)) !== null;
  return { kind: "session", actor: `session:${session.key}`, session, isTokenValid: tokenIsGood };
}

async function findTokenHash(sessions: Sessions, operator: string, tokenId: string): Promise<string | null> {
  const hash = hashSessionToken(operator);
  return tokenIdFromHash(hash) === tokenId ? hash : sessions.tokenHash(tokenId);
}

/** Each prompt to a command may have begun a session; nobody ends them by hand. */
async function closeIdleSessions(sessions: Sessions, gatewayInstanceId: string): Promise<number> {
  const idleSince = Date.now() - defaults.sessionsKeptMs;
  const idle = await sessions.list({ open: true, backend: CLI_BACKEND, idleSince });
  const ours = idle.filter((row) => row.gatewayInstanceId === gatewayInstanceId);
  for (const { id } of ours) await sessions.close(id, "nobody went on with it");
  return ours.length;
}
