import { OPEN_STATES, type RunRecord } from "../store/run-record.js";
import type { RequestListener } from "node:http";
import { join } from "node:path";
import { agentsOf, ownAgents } from "../agents/catalogue.js";
import { hostname } from "node:os";
import { findAnchor } from "../anchor/find.js";
import { observeNatively } from "../anchor/native-host.js";
import { packageVersion } from "../anchor/package-version.js";
import { RunDirectories } from "../anchor/run-directory.js";
import { Bell } from "../channels/bell.js";
import { openChannels } from "../channels/channels.js";
import { createCourier } from "../channels/courier.js";
import { sessionInbox } from "../channels/session-inbox.js";
import { defaults } from "../defaults.js";
import { AcpController } from "../acp/controller.js";
import { openApprovals } from "../sessions/approvals.js";
import { History } from "../sessions/history.js";
import { Sessions } from "../sessions/sessions.js";
import { presentGateways } from "../store/gateway-presence.js";
import { observeMachineIdentity } from "../store/machine.js";
import { ledgerIn } from "../store/ledger/file-ledger.js";
import { readNotRestored } from "../store/ledger/not-restored.js";
import { watchEvents } from "../store/open.js";
import { directoryIdOf, stateIdOf } from "../store/state-id.js";
import type { Store } from "../store/store.js";
import type { Problem, Run, Supervisor } from "../supervisor/api.js";
import { awaitStore, type Waiting } from "../supervisor/await-store.js";
import { systemClock } from "../supervisor/clock.js";
import { deferred } from "../supervisor/deferred.js";
import { processesOfRun } from "../supervisor/live-processes.js";
import { AgentRuns, CLI_BACKEND } from "./agent-runs.js";
import type { Callers } from "./callers.js";
import { capabilitiesHere } from "./capabilities.js";
import type { Config } from "./config.js";
import { EventTail } from "./event-tail.js";
import { createAcpHandlers } from "./handlers/acp.js";
import { createHandlers } from "./handlers/handlers.js";
import { taskPlaces } from "./handlers/task-places.js";
import { visibleTask } from "./handlers/task-reading.js";
import { createTaskHandlers } from "./handlers/tasks.js";
import { Errands } from "./commands/carry-out.js";
import { Stops } from "./commands/hand-over.js";
import { AcpWhereabouts } from "./peers/acp-whereabouts.js";
import { PeerBook } from "./peers/peer-book.js";
import { statedRequester } from "./peers/stated.js";
import { stopByPeers } from "./peers/stop-by-peers.js";
import { Whereabouts } from "./peers/whereabouts.js";
import { StoreAway, SupervisorClosed } from "../errors.js";
import { Admission } from "./server/admission.js";
import { createApp, requesterOf } from "./server/app.js";
import { Attachments } from "./server/attach.js";
import { Metrics } from "./metrics.js";
import { Presence } from "./presence.js";
import { Connections } from "./server/connections.js";
import { openDoors, type Doors } from "./server/doors.js";
import type { Entrance } from "./server/entrance.js";
import type { Served } from "./server/loopback.js";
import { operatorToken, sameToken, type Requester } from "./server/requester.js";
import { tokenIdOf } from "./token-proof.js";
import { hashToken } from "../sessions/token.js";
import { serveSpecial } from "./server/special.js";
import { Sights, type Denial } from "./sights.js";
import { Screens } from "./screens.js";
import { SessionStorage } from "./session-storage.js";
import { Settling } from "./settling.js";
import { StoreHealth } from "./store-health.js";
import { acknowledgeRead } from "./work/acknowledge.js";
import { wakeFor } from "./work/message-turn.js";
import { openWork, type Work } from "./work/open-work.js";

export interface OfficeParts {
  readonly home: string;
  /** The supervisor's, which closes it. */
  readonly store: Store;
  readonly supervisor: Supervisor;
  readonly callers: Callers;
  readonly startedAt: number;
  /** Whether what was left has been looked at. */
  readonly ready: () => boolean;
  /** Another process of the instance is the gateway now: its row in the store stays. */
  readonly isTaken: () => boolean;
  readonly config: Config;
  /** How long a caller may take to say what it wants. */
  readonly requestMs: number;
  readonly problem: (problem: Problem) => void;
  /** Null: a store that is away is not waited for. */
  readonly waiting: Waiting | null;
  readonly denied: (denial: Denial) => void;
}

/** Where a gateway is asked: its API, with who may ask what. */
export interface Office extends AsyncDisposable {
  readonly asked: Promise<void>;
  readonly settling: Settling;
  readonly acp: AcpController;
  /** Say that it is still there. */
  beat(): Promise<void>;
  /** Take up what other gateways have handed over. */
  takeUp(): Promise<void>;
  /** Runs that this gateway has got from others, or from a former one. */
  takeOver(runs: readonly Run[]): void;
  lookAfterTasks: Work["lookAfter"];
  /** See to the answers of agents' commands that a former gateway started. */
  look(): Promise<void>;
  /**
   * Forget sessions that were closed, questions that were answered, what was said or handed over, and gateways that left, long
   * ago; end those of commands that nobody went on with.
   */
  retain(): Promise<{
    readonly sessions: number;
    readonly approvals: number;
    readonly messages: number;
    readonly updates: number;
  }>;
}

export async function openOffice(parts: OfficeParts): Promise<Office> {
  const { home, store, supervisor, callers, startedAt, ready, config, requestMs, problem, denied } = parts;
  const { instanceId } = supervisor;
  const machine = await observeMachineIdentity(home);
  const stateId = await stateIdOf(home);
  const capabilities = await capabilitiesHere();
  const presence = new Presence(store, {
    ...machine,
    instanceId,
    hostName: hostname(),
    stateId,
    directory: await directoryIdOf(home),
    version: packageVersion(),
    capabilities,
    address: null,
    peerKey: null,
    startedAt,
  });
  const approvals = await awaitStore(async () => {
    await presence.announce();
    return openApprovals({
      store,
      gatewayInstanceId: instanceId,
      onProblem: (message, cause) => problem({ runId: null, message, cause }),
    });
  }, parts.waiting);
  const sessions = new Sessions({
    store,
    approvals,
    gatewayInstanceId: instanceId,
    a2aPolicy: config.a2a,
    visibility: config.visibility.default,
    execRules: config.exec,
  });
  const history = new History(store);
  const bell = new Bell();
  const channels = openChannels(config.channels, { supervisor, bell });
  const courier = createCourier(channels, sessionInbox(history));
  const own = ownAgents(config.agents);
  const agents = { all: agentsOf(own), own: new Set(own.map(({ id }) => id)) };
  // Lost or failed, it is found at the next round.
  const onRead = (sessionId: string): Promise<void> =>
    acknowledgeRead(store, sessionId).catch(() => undefined);
  const onDelivered = (sessionId: string): void => void onRead(sessionId);
  const agentRuns = new AgentRuns({
    ...{ supervisor, sessions, history, store, problem, onDelivered },
    agents: agents.all,
  });
  const asked = deferred<void>();
  let stopping = false;
  let doors: Doors | null = null;
  const book = new PeerBook(home, instanceId);
  if (store.shared) await book.load();
  const whereabouts = new Whereabouts({ store, instanceId, hostId: machine.hostId, stateId });
  const mustBeOpen = (): void => {
    if (stopping) throw new SupervisorClosed(instanceId, "its gateway stops; nothing was done");
  };
  const sights = new Sights(sessions, denied);
  const screens = new Screens(supervisor);
  const acp = new AcpController({
    supervisor,
    store,
    sessions,
    agents: agents.all,
    passEnv: config.environment.pass,
    onProblem: (message, cause) => problem({ runId: null, message, cause }),
    waking: (message, turnId, begin) => wakeFor({ background, sessions }, message, turnId, begin),
    onDelivered,
  });
  const hearing = history.onWaiting((sessionId) => acp.heard(sessionId));
  const settling = new Settling(supervisor, callers, acp);
  const gate = { sessions, approvals, passEnv: config.environment.pass };
  const work = openWork({
    ...{ store, supervisor, sessions, acp, agentRuns, channels, courier, instanceId, problem },
    isHere: (run) => !store.shared || run.stateId === stateId,
  });
  const { background } = work;
  const stops = new Stops({ supervisor, store, whereabouts });
  const operator = await operatorToken(home);
  const taskDesk = {
    ...{ ...work, store, supervisor, stops, acp, sights, channels: config.channels },
    places: taskPlaces(operator),
    notRestored: () => readNotRestored(ledgerIn(home)),
  };
  const getRun = (runId: string): Promise<RunRecord | null> => supervisor.getRun(runId);
  const acpDesk = {
    ...{ acp, store, sessions, gate, sights, getRun, background, channels: config.channels },
    mayStart: () => settling.mayStart(),
    noteTask: async (sessionId: string, taskId: string) => {
      const session = await store.getAcpSession(sessionId).catch(() => null);
      if (session === null || session.runId === null) return;
      // The store has it too: a full disk must not keep a turn from being asked for.
      const runs = new RunDirectories(join(home, "instances", instanceId));
      await runs.noteTask(session.runId, taskId).catch(() => undefined);
    },
  };
  const observer = observeNatively(home, machine, findAnchor());
  const health = new StoreHealth({
    store,
    supervisor,
    instanceId,
    problem: (message, cause) => problem({ runId: null, message, cause }),
  });
  const handlers = createHandlers({
    supervisor,
    processesOf: async (record) =>
      processesOfRun(
        observer,
        record,
        await supervisor.listRuns({ states: OPEN_STATES, withoutLabels: true }),
        {
          ports: record.service !== null,
        },
      ),
    stops,
    stopByPeers: (requester, runId, body, unread) =>
      stopByPeers({ book, instanceId }, requester, runId, body, unread),
    callers,
    screens,
    sights,
    gate,
    acp: createAcpHandlers(acpDesk),
    tasks: createTaskHandlers(taskDesk),
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
    agentRuns,
    channels: config.channels,
    courier,
    mayStart: () => settling.mayStart(),
    defaults: config.defaults,
    about: async () => ({
      instanceId: instanceId,
      version: packageVersion(),
      pid: process.pid,
      home,
      startedAt,
      ready: ready() && !stopping,
      ...(await openRuns(supervisor)),
      storeWrites: health.get(),
      tier: null,
      listen: doors?.listen ?? null,
    }),
    gateways: () => presentGateways(store, machine.bootId, Date.now()),
    stop: async (policy) => {
      const done = await settling.settle(policy);
      // After the answer is on its way.
      setTimeout(() => asked.resolve(), 10);
      return done;
    },
  });
  const events = new EventTail(store);
  const targets = [stateId, instanceId];
  const failing = (runId: string, cause: unknown): void => {
    if (stopping) return;
    problem({
      runId,
      message: `run ${runId}: what was handed over was not carried out; trying again`,
      cause,
    });
  };
  const errands = new Errands({ supervisor, store, whereabouts, targets, failing });
  const watch = await watchEvents(
    instanceId,
    () => events.wake(),
    (target) => {
      // Lost or failed, it is found at the next round.
      if (ready() && (target === null || targets.includes(target)))
        void errands.look().catch(() => undefined);
    },
  );
  const metrics = new Metrics(supervisor, observer, work.metrics, store.shared ? { stateId } : {}, health);
  await metrics.start();
  const authenticate = (token: string): Promise<Requester | null> => whoseToken(sessions, operator, token);
  const special = serveSpecial(supervisor, events, sights, metrics, approvals, acpDesk, taskDesk);
  const admission = new Admission();
  const storage = new SessionStorage(store);
  const app = (entrance: Entrance): RequestListener =>
    createApp({
      handlers,
      special,
      entrance,
      admission,
      mustHaveRoom: (requester) => storage.mustHaveRoom(requester),
      stopping: () => stopping,
      failed: (cause, what) => problem({ runId: null, message: `${what} failed`, cause }),
    });
  const attachments = new Attachments({ supervisor, callers, sights, admission, bell, mustBeOpen });
  /** Null: it is held here, or it may not be seen, which is said here. */
  const perhapsFar = async (requester: Requester, runId: string): Promise<RunRecord | null> => {
    if (!store.shared || supervisor.run(runId) !== null) return null;
    const record = await supervisor.getRun(runId);
    return record !== null && (await sights.runsOf(requester)(record.sessionId)) ? record : null;
  };
  const agentsElsewhere = new AcpWhereabouts({
    store,
    instanceId,
    sights,
    isLost: (session) => acp.isLost(session),
    taskOf: (requester, id) => visibleTask(taskDesk, requester, id),
  });
  const connections = new Connections();
  const byToken = (served: Served | null): Entrance => ({
    served,
    connections,
    requesterOf: (request) => requesterOf(authenticate, request),
    hashOf: (tokenId) => hashOfToken(sessions, operator, tokenId),
    forPeers: false,
    whoHas: async (requester, runId) => whereabouts.peerFor(await perhapsFar(requester, runId)),
    whoSpeaks: (requester, verb, id) => agentsElsewhere.peerFor(requester, verb, id),
  });
  const forPeers: Entrance = {
    served: null,
    connections: null,
    requesterOf: (request) => statedRequester(store, book, sessions, request),
    hashOf: null,
    forPeers: true,
    whoHas: async (requester, runId) => whereabouts.mustBeHere(await perhapsFar(requester, runId)),
    whoSpeaks: (requester, verb, id) => agentsElsewhere.mustBeHere(requester, verb, id),
  };
  doors = await openDoors({
    ...{ home, instanceId, config, requestMs, app, attachments, byToken, forPeers },
    shared: store.shared,
    problem: (message, cause) => problem({ runId: null, message, cause }),
  });
  if (doors.peering !== null)
    await presence.reachableAt(doors.peering).catch((error: unknown) => {
      // Said with the next beat.
      if (!(error instanceof StoreAway)) throw error;
    });
  return {
    asked: asked.promise,
    settling,
    acp,
    look: () => agentRuns.look(),
    takeOver: (runs) => background.takeOver(runs),
    lookAfterTasks: () => work.lookAfter(),
    beat: async () => {
      await health.look(() => presence.beat());
      if (store.shared) await book.refresh(store);
    },
    takeUp: async () => {
      if (store.shared) acp.look();
      await errands.look();
    },
    retain: async () => {
      await store.forgetCommands(defaults.commandsKeptMs);
      await store.forgetSilent(defaults.gatewaysKeptMs);
      await store.forgetTokens(Date.now());
      return {
        approvals: await store.forgetApprovals(Date.now() - defaults.approvalsKeptMs),
        messages: await store.forgetMessages(Date.now() - defaults.messagesKeptMs),
        updates: await store.forgetAcpUpdates(Date.now() - defaults.acpUpdatesKeptMs),
        sessions:
          (await endIdle(sessions, instanceId)) +
          (await store.forgetSessions(Date.now() - defaults.sessionsKeptMs)),
      };
    },
    async [Symbol.asyncDispose]() {
      stopping = true;
      callers[Symbol.dispose]();
      hearing[Symbol.dispose]();
      await work[Symbol.asyncDispose]();
      await metrics[Symbol.asyncDispose]();
      await watch[Symbol.asyncDispose]();
      await observer[Symbol.asyncDispose]();
      await attachments[Symbol.asyncDispose]();
      await acp[Symbol.asyncDispose]();
      await doors?.[Symbol.asyncDispose]();
      await screens[Symbol.asyncDispose]();
      await approvals[Symbol.asyncDispose]();
      await agentRuns[Symbol.asyncDispose]();
      if (!parts.isTaken()) await presence[Symbol.asyncDispose]();
    },
  };
}

/** A gateway says how it is whatever the store does: what stops runs asks it first. */
async function openRuns(
  supervisor: Supervisor,
): Promise<{ readonly runs: number; readonly storeAway: string | null }> {
  const held = (storeAway: string) => ({ runs: supervisor.held, storeAway });
  const listed = supervisor
    .scope()
    .then((mine) =>
      supervisor.listRunsOrLocal(
        { ...mine, states: OPEN_STATES, withoutLabels: true },
        defaults.localAnswerMs,
      ),
    );
  const asked = listed.then(
    ({ runs, storeAway }) => (storeAway === null ? { runs: runs.length, storeAway } : held(storeAway)),
    (error: unknown) => held(error instanceof Error ? error.message : String(error)),
  );
  const late = systemClock.pause(defaults.storeAnswerMs, asked).then(() => held("the store does not answer"));
  return Promise.race([asked, late]);
}

async function whoseToken(sessions: Sessions, operator: string, token: string): Promise<Requester | null> {
  if (sameToken(token, operator)) return { kind: "operator", actor: "operator" };
  const session = await sessions.authenticate(token);
  if (session === null) return null;
  const tokenIsGood = async (): Promise<boolean> => (await sessions.authenticate(token)) !== null;
  return { kind: "session", actor: `session:${session.key}`, session, tokenIsGood };
}

async function hashOfToken(sessions: Sessions, operator: string, tokenId: string): Promise<string | null> {
  const hash = hashToken(operator);
  return tokenIdOf(hash) === tokenId ? hash : sessions.tokenHash(tokenId);
}

/** Each prompt to a command may have begun a session; nobody ends them by hand. */
async function endIdle(sessions: Sessions, gatewayInstanceId: string): Promise<number> {
  const idleSince = Date.now() - defaults.sessionsKeptMs;
  const idle = await sessions.list({ open: true, backend: CLI_BACKEND, idleSince });
  const ours = idle.filter((row) => row.gatewayInstanceId === gatewayInstanceId);
  for (const { id } of ours) await sessions.close(id, "nobody went on with it");
  return ours.length;
}
