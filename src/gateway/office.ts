import { OPEN_STATES } from "../store/run-record.js";
import type { RequestListener } from "node:http";
import { findAnchor } from "../anchor/find.js";
import { observeNatively } from "../anchor/native-host.js";
import { packageVersion } from "../anchor/package-version.js";
import { defaults } from "../defaults.js";
import { AcpController } from "../acp/controller.js";
import { agentsOf } from "../agents/catalogue.js";
import { openApprovals } from "../sessions/approvals.js";
import { Sessions } from "../sessions/sessions.js";
import { observeMachineIdentity } from "../store/machine.js";
import { openStore, watchEvents } from "../store/open.js";
import type { Problem, Supervisor } from "../supervisor/api.js";
import { deferred } from "../supervisor/deferred.js";
import type { Callers } from "./callers.js";
import type { Config } from "./config.js";
import { EventTail } from "./event-tail.js";
import { createAcpHandlers } from "./handlers/acp.js";
import { createHandlers } from "./handlers/handlers.js";
import type { Sees } from "./handlers/visible.js";
import { SupervisorClosed } from "../errors.js";
import { createApp, requesterOf } from "./server/app.js";
import { Attachments } from "./server/attach.js";
import { Metrics } from "./metrics.js";
import { listenLocally } from "./server/listen.js";
import { listenOnLoopback, parseLoopback, type LoopbackListening, type Served } from "./server/loopback.js";
import { operatorToken, sameToken, type Requester } from "./server/requester.js";
import { serveSpecial } from "./server/special.js";
import { Screens } from "./screens.js";
import { Settling } from "./settling.js";

export interface OfficeParts {
  readonly home: string;
  readonly storePath: string;
  readonly supervisor: Supervisor;
  readonly callers: Callers;
  readonly startedAt: number;
  /** Whether what was left has been looked at. */
  readonly ready: () => boolean;
  readonly config: Config;
  /** How long a caller may take to say what it wants. */
  readonly requestMs: number;
  readonly problem: (problem: Problem) => void;
}

/** Where a gateway is asked: its API, with who may ask what. */
export interface Office extends AsyncDisposable {
  readonly asked: Promise<void>;
  readonly settling: Settling;
  readonly acp: AcpController;
  /** Forget sessions that were closed, and questions that were answered, long ago. */
  retain(): Promise<{ readonly sessions: number; readonly approvals: number; readonly updates: number }>;
}

export async function openOffice(parts: OfficeParts): Promise<Office> {
  const { home, storePath, supervisor, callers, startedAt, ready, config, requestMs, problem } = parts;
  const store = await openStore(storePath, supervisor.instanceId);
  const approvals = await openApprovals({
    store,
    gatewayInstanceId: supervisor.instanceId,
    onProblem: (message, cause) => problem({ runId: null, message, cause }),
  });
  const sessions = new Sessions({
    store,
    approvals,
    gatewayInstanceId: supervisor.instanceId,
    a2aPolicy: config.a2a,
    visibility: config.visibility.default,
    execRules: config.exec,
  });
  const asked = deferred<void>();
  let stopping = false;
  let tcp: LoopbackListening | null = null;
  const mustBeOpen = (): void => {
    if (stopping) throw new SupervisorClosed(supervisor.instanceId, "its gateway stops; nothing was done");
  };
  const sees = seesRuns(sessions);
  const screens = new Screens(supervisor);
  const acp = new AcpController({
    supervisor,
    store,
    sessions,
    agents: agentsOf(),
    onProblem: (message, cause) => problem({ runId: null, message, cause }),
  });
  const settling = new Settling(supervisor, callers, (enough) => acp.quiet(enough));
  const gate = { sessions, approvals };
  const acpDesk = { acp, store, sessions, gate, sees, mayStart: () => settling.mayStart() };
  const handlers = createHandlers({
    supervisor,
    callers,
    screens,
    sees,
    gate,
    acp: createAcpHandlers(acpDesk),
    closeAgent: async (sessionId, actor) => {
      const session = await store.getAcpSession(sessionId);
      if (session === null || session.state === "closed") return false;
      await acp.closeSession(sessionId, { actor });
      return true;
    },
    mayStart: () => settling.mayStart(),
    defaults: config.defaults,
    about: async () => ({
      instanceId: supervisor.instanceId,
      version: packageVersion(),
      pid: process.pid,
      home,
      startedAt,
      ready: ready() && !stopping,
      runs: (await supervisor.listRuns({ states: OPEN_STATES })).length,
      tier: null,
      listen: tcp?.address ?? null,
    }),
    stop: async (policy) => {
      const done = await settling.settle(policy);
      // After the answer is on its way.
      setTimeout(() => asked.resolve(), 10);
      return done;
    },
  });
  const events = new EventTail(supervisor);
  const watch = await watchEvents(supervisor.instanceId, () => events.wake());
  const observer = observeNatively(home, await observeMachineIdentity(home), findAnchor());
  const metrics = new Metrics(supervisor, events, observer);
  await metrics.start();
  const operator = await operatorToken(home);
  const authenticate = (token: string): Promise<Requester | null> => whoseToken(sessions, operator, token);
  const app = (served: Served | null): RequestListener =>
    createApp({
      handlers,
      special: serveSpecial(supervisor, events, sees, metrics, approvals, acpDesk),
      authenticate,
      served,
      stopping: () => stopping,
      failed: (cause, what) => problem({ runId: null, message: `${what} failed`, cause }),
    });
  const listening = await listenLocally(home, requestMs, app(null));
  const attachments = new Attachments({
    supervisor,
    callers,
    sees,
    mustBeOpen,
    requesterOf: (request) => requesterOf(authenticate, request),
  });
  listening.server.on("upgrade", (request, socket, head) => attachments.upgrade(request, socket, head));
  const wanted = parseLoopback(config.gateway.listen ?? "");
  if (wanted !== null)
    // Its runs matter more than its port: it says so, and goes on with its socket.
    tcp = await listenOnLoopback(wanted, requestMs, app).catch((cause: unknown) => {
      problem({ runId: null, message: "the gateway answers on its socket only", cause });
      return null;
    });
  tcp?.server.on("upgrade", (request, socket, head) =>
    attachments.upgrade(request, socket, head, tcp?.served),
  );
  return {
    asked: asked.promise,
    settling,
    acp,
    retain: async () => ({
      approvals: await store.forgetApprovals(Date.now() - defaults.approvalsKeptMs),
      sessions: await store.forgetSessions(Date.now() - defaults.sessionsKeptMs),
      updates: await store.forgetAcpUpdates(Date.now() - defaults.acpUpdatesKeptMs),
    }),
    async [Symbol.asyncDispose]() {
      stopping = true;
      callers[Symbol.dispose]();
      await metrics[Symbol.asyncDispose]();
      await watch[Symbol.asyncDispose]();
      await observer[Symbol.asyncDispose]();
      await attachments[Symbol.asyncDispose]();
      await acp[Symbol.asyncDispose]();
      await listening[Symbol.asyncDispose]();
      await screens[Symbol.asyncDispose]();
      await tcp?.[Symbol.asyncDispose]();
      await approvals[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

async function whoseToken(sessions: Sessions, operator: string, token: string): Promise<Requester | null> {
  if (sameToken(token, operator)) return { kind: "operator", actor: "operator" };
  const session = await sessions.authenticate(token);
  return session === null
    ? null
    : { kind: "session", actor: `session:${session.key}`, sessionId: session.id };
}

/** The operator sees everything; a session what its row and the run's session's row say. */
function seesRuns(sessions: Sessions): Sees {
  return async (requester, sessionId) => {
    if (requester.kind === "operator") return true;
    const [self, row] = await Promise.all([
      sessions.get(requester.sessionId),
      sessionId === null ? null : sessions.get(sessionId),
    ]);
    // Also of one that went on following when its session was closed.
    if (self === null || self.closedAt !== null || row === null) return false;
    return sessions.requesterSees(self, row).visible;
  };
}
