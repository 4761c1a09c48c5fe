import { packageVersion } from "../anchor/package-version.js";
import { openApprovals } from "../sessions/approvals.js";
import { Sessions } from "../sessions/sessions.js";
import { openSqliteStore } from "../store/sqlite/open.js";
import type { Problem, Supervisor } from "../supervisor/api.js";
import { deferred } from "../supervisor/deferred.js";
import { createHandlers } from "./handlers/handlers.js";
import type { Sees } from "./handlers/visible.js";
import { Unauthorized } from "../errors.js";
import { bearerOf, createApp } from "./server/app.js";
import { Attachments } from "./server/attach.js";
import { Metrics } from "./metrics.js";
import { listenLocally } from "./server/listen.js";
import { operatorToken, sameToken, type Requester } from "./server/requester.js";
import { serveSpecial } from "./server/special.js";
import { settleRuns, type StopPolicy, type Stopping } from "./stop.js";

export interface OfficeParts {
  readonly home: string;
  readonly storePath: string;
  readonly supervisor: Supervisor;
  readonly startedAt: number;
  /** Whether what was left has been looked at. */
  readonly ready: () => boolean;
  readonly problem: (problem: Problem) => void;
}

/** Where a gateway is asked: its API, with who may ask what. */
export interface Office extends AsyncDisposable {
  readonly asked: Promise<void>;
  /** Once; a stop that was asked for over the API has settled them already. */
  settle(policy: StopPolicy): Promise<Stopping>;
}

export async function openOffice(parts: OfficeParts): Promise<Office> {
  const { home, storePath, supervisor, startedAt, ready, problem } = parts;
  const store = await openSqliteStore({ path: storePath });
  const approvals = await openApprovals({
    store,
    gatewayInstanceId: supervisor.instanceId,
    onProblem: (message, cause) => problem({ runId: null, message, cause }),
  });
  const sessions = new Sessions({
    store,
    approvals,
    gatewayInstanceId: supervisor.instanceId,
    a2aPolicy: { enabled: false, allow: [] },
  });
  const asked = deferred<void>();
  let stopping = false;
  let settling: Promise<Stopping> | null = null;
  const settle = (policy: StopPolicy): Promise<Stopping> => (settling ??= settleRuns(supervisor, policy));
  const sees = seesRuns(sessions);
  const handlers = createHandlers({
    supervisor,
    sees,
    gate: { sessions, approvals },
    hidden: new Set(),
    about: async () => ({
      instanceId: supervisor.instanceId,
      version: packageVersion(),
      pid: process.pid,
      home,
      startedAt,
      ready: ready(),
      runs: (await supervisor.listRuns({ states: ["starting", "running", "exiting"] })).length,
      tier: null,
    }),
    stop: async (policy) => {
      const done = await settle(policy);
      // After the answer is on its way.
      setTimeout(() => asked.resolve(), 10);
      return done;
    },
  });
  const metrics = new Metrics(supervisor);
  await metrics.start();
  const operator = await operatorToken(home);
  const listening = await listenLocally(
    home,
    createApp({
      handlers,
      special: serveSpecial(supervisor, sees, metrics),
      authenticate: (token) => authenticate(sessions, operator, token),
      hosts: null,
      stopping: () => stopping,
      failed: (cause, what) => problem({ runId: null, message: `${what} failed`, cause }),
    }),
  );
  const attachments = new Attachments({
    supervisor,
    sees,
    requesterOf: async (request) => {
      const token = bearerOf(request);
      const requester = token === null ? null : await authenticate(sessions, operator, token);
      if (requester === null) throw new Unauthorized("a valid token is needed");
      return requester;
    },
  });
  listening.server.on("upgrade", (request, socket, head) => attachments.upgrade(request, socket, head));
  return {
    asked: asked.promise,
    settle,
    async [Symbol.asyncDispose]() {
      stopping = true;
      await metrics[Symbol.asyncDispose]();
      await attachments[Symbol.asyncDispose]();
      await listening[Symbol.asyncDispose]();
      await approvals[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

async function authenticate(sessions: Sessions, operator: string, token: string): Promise<Requester | null> {
  if (sameToken(token, operator)) return { kind: "operator", actor: "operator" };
  const session = await sessions.authenticate(token);
  return session === null
    ? null
    : { kind: "session", actor: `session:${session.key}`, sessionId: session.id };
}

/** The operator sees everything; a session what its row and the run's session's row say. */
function seesRuns(sessions: Sessions): Sees {
  return async (requester, sessionKey) => {
    if (requester.kind === "operator") return 0;
    const [self, row] = await Promise.all([
      sessions.get(requester.sessionId),
      sessionKey === null ? null : sessions.getByKey(sessionKey),
    ]);
    // Also of one that went on following when its session was closed.
    if (self === null || self.closedAt !== null || row === null) return Infinity;
    return sessions.requesterSees(self, row).visible ? row.createdAt : Infinity;
  };
}
