import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { z } from "zod";
import { validateInput } from "../../api/contract.js";
import { errorHeaders, httpStatusOf, toErrorResponse } from "../../api/error-response.js";
import type { DashboardLink } from "../../api/routes/dashboard.js";
import { defaults } from "../../defaults.js";
import { BadInput, SupervisorClosed, Unauthorized } from "../../errors.js";
import { type Requester, sessionIdOf } from "../../sessions/requester.js";
import type { Sessions } from "../../sessions/sessions.js";
import { NOT_COUNTED } from "../server/admission-control.js";
import { readJson, sendJson } from "../server/json-bodies.js";
import type { ListenerPolicy } from "../server/listeners.js";
import {
  type AllowedHosts,
  assertAllowedHost,
  listenOnLoopback,
  type LoopbackListener,
} from "../server/loopback-listener.js";
import { requestTarget } from "../server/route-table.js";
import {
  assertFromPage,
  cookieOf,
  hidePageToken,
  isRead,
  loginCookie,
  pageTokenOf,
} from "./browser-requests.js";
import { type Login, Logins, readStored, type StoredDashboard, writeStored } from "./logins.js";
import { Page, SECURITY_HEADERS, setSecurityHeaders } from "./page.js";

const LOGIN_PATH = "/dashboard/login";
const LOGOUT_PATH = "/dashboard/logout";
const linkSchema = z.strictObject({ link: z.string().min(1).max(100) });

export interface DashboardDeps {
  /** Keeps port and logins, so that an open page continues after a restart of the gateway. */
  readonly path: string;
  readonly sessions: Pick<Sessions, "get">;
  readonly requestMs: number;
  readonly router: (policy: ListenerPolicy) => RequestListener;
  readonly onUpgrade: (
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    policy: ListenerPolicy,
  ) => void;
  readonly tokenPolicy: (allowedHosts: AllowedHosts | null) => ListenerPolicy;
  readonly onProblem: (message: string, cause: unknown) => void;
}

interface OpenDashboard {
  readonly listener: LoopbackListener;
  readonly port: number;
  readonly logins: Logins;
  readonly page: Page;
  /** Connections of each login, which end with it. */
  readonly connections: Map<string, Set<Duplex>>;
  readonly expiryTimer: NodeJS.Timeout;
}

/**
 * Serves the dashboard and the API to browsers, on a loopback port of its own. It listens from the first link until the
 * last login ends.
 */
export class Dashboard implements AsyncDisposable {
  readonly #deps: DashboardDeps;
  #open: OpenDashboard | null = null;
  #changing: Promise<unknown> = Promise.resolve();
  #stopped = false;

  constructor(deps: DashboardDeps) {
    this.#deps = deps;
  }

  /** Continues with the logins of the former gateway process. A port that is taken is reported. */
  restore(): Promise<void> {
    return this.#inTurn(async () => {
      const stored = readStored(this.#deps.path);
      if (stored === null) return;
      const logins = new Logins(stored.logins);
      if (!logins.inUse) return;
      try {
        this.#open = await this.#listen(stored.port, logins);
      } catch (cause) {
        this.#deps.onProblem("the dashboard is closed; open it again: holdfast dashboard", cause);
      }
    });
  }

  open(requester: Requester, port: number | null): Promise<DashboardLink> {
    return this.#inTurn(async () => {
      if (this.#stopped) throw new SupervisorClosed("", "the gateway stops; nothing was done");
      if (this.#open !== null && port !== null && port !== this.#open.port)
        throw new BadInput(
          "port",
          `the dashboard is open on port ${this.#open.port}; close it first: holdfast dashboard --close`,
        );
      const former = port ?? readStored(this.#deps.path)?.port ?? 0;
      this.#open ??= await this.#listen(former, new Logins()).catch((error: unknown) => {
        if (port !== null || former === 0) throw error;
        return this.#listen(0, new Logins());
      });
      const { logins, listener } = this.#open;
      const { secret, expiresAt } = logins.newLink(requester);
      const url = `http://${listener.address}/#link=${secret}`;
      return { url, address: listener.address, expiresAt, sessionId: sessionIdOf(requester) };
    });
  }

  close(): Promise<{ readonly closed: boolean }> {
    return this.#inTurn(() => this.#close());
  }

  /** The port and the logins stay for the next gateway process. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#inTurn(async () => {
      this.#stopped = true;
      await this.#stopListening();
    });
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const done = this.#changing.then(work);
    this.#changing = done.catch(() => undefined);
    return done;
  }

  async #close(): Promise<{ readonly closed: boolean }> {
    const open = this.#open;
    if (open === null) return { closed: false };
    await this.#stopListening();
    await this.#store(open.port, []);
    return { closed: true };
  }

  async #listen(port: number, logins: Logins): Promise<OpenDashboard> {
    const { requestMs, router, tokenPolicy, onUpgrade } = this.#deps;
    const page = new Page();
    const policyOf = (allowedHosts: AllowedHosts): ListenerPolicy => ({
      ...tokenPolicy(allowedHosts),
      authenticate: (request) => this.#authenticate(request),
      findTokenHash: null,
      refusalHeaders: SECURITY_HEADERS,
    });
    const listener = await listenOnLoopback({ host: "127.0.0.1", port }, requestMs, (allowedHosts) => {
      const serveApi = router(policyOf(allowedHosts));
      return (request, response) => this.#serve(allowedHosts, serveApi, request, response);
    });
    const policy = policyOf(listener.allowedHosts);
    policy.connectionLimiter?.watch(listener.server);
    listener.server.on("upgrade", (request, socket, head) => onUpgrade(request, socket, head, policy));
    const expiryTimer = setInterval(() => void this.#endExpired(), defaults.dashboardExpiryPollMs);
    expiryTimer.unref();
    const actual = Number(/\d+$/.exec(listener.address)?.[0]);
    return { listener, port: actual, logins, page, connections: new Map(), expiryTimer };
  }

  #serve(
    allowedHosts: AllowedHosts,
    serveApi: RequestListener,
    request: IncomingMessage,
    response: ServerResponse,
  ): void {
    setSecurityHeaders(response);
    const fail = (error: unknown): void => {
      if (response.headersSent || response.destroyed) response.destroy();
      else sendJson(response, httpStatusOf(error), toErrorResponse(error), errorHeaders(error));
    };
    try {
      assertAllowedHost(allowedHosts, request);
      const { method = "", headers } = request;
      const { pathname } = requestTarget(request);
      if (method === "POST" && pathname === LOGIN_PATH) void this.#login(request, response).catch(fail);
      else if (method === "POST" && pathname === LOGOUT_PATH)
        void this.#logout(request, response).catch(fail);
      else if (
        !isRead(method) ||
        headers.upgrade !== undefined ||
        this.#open?.page.send(pathname, method, response) !== true
      )
        serveApi(request, response);
    } catch (error) {
      fail(error);
    }
  }

  async #login(request: IncomingMessage, response: ServerResponse): Promise<void> {
    assertFromPage(request);
    const { link } = validateInput(linkSchema, await readJson(request, NOT_COUNTED), "the body");
    const open = this.#open;
    const made = open?.logins.exchange(link) ?? null;
    if (open === null || made === null)
      throw new Unauthorized("the link was used or has expired; make a new one: holdfast dashboard");
    await this.#store(open.port, open.logins.toStore());
    const { login, cookie, token } = made;
    response.setHeader("set-cookie", loginCookie(open.port, cookie, defaults.dashboardLoginMs));
    sendJson(response, 200, { token, expiresAt: login.expiresAt, sessionId: login.sessionId });
  }

  async #logout(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const login = this.#findLogin(request);
    const open = this.#open;
    if (login === null || open === null) throw new Unauthorized("the page is not logged in");
    open.logins.remove(login);
    await this.#store(open.port, open.logins.toStore());
    response.setHeader("set-cookie", loginCookie(open.port, "", 0));
    response.once("close", () => void this.#endExpired());
    sendJson(response, 200, {}, { connection: "close" });
  }

  #findLogin(request: IncomingMessage): Login | null {
    assertFromPage(request);
    const open = this.#open;
    return open === null ? null : open.logins.find(cookieOf(request, open.port), pageTokenOf(request));
  }

  /** The requester whose rights the page has. Rejects with Unauthorized. */
  async #authenticate(request: IncomingMessage): Promise<Requester> {
    const login = this.#findLogin(request);
    const open = this.#open;
    hidePageToken(request);
    const requester = login === null ? null : await this.#requesterOf(login);
    if (login === null || requester === null || open === null || !open.logins.has(login))
      throw new Unauthorized("this page is not logged in; open it with: holdfast dashboard");
    const { socket } = request;
    const connections = open.connections.get(login.cookieHash) ?? new Set();
    open.connections.set(login.cookieHash, connections);
    if (!connections.has(socket)) {
      connections.add(socket);
      socket.once("close", () => connections.delete(socket));
    }
    return requester;
  }

  async #requesterOf(login: Login): Promise<Requester | null> {
    if (login.sessionId === null) return { kind: "operator", actor: "operator" };
    const { sessionId, isTokenValid } = login;
    const session = await this.#deps.sessions.get(sessionId);
    if (session === null || session.closedAt !== null) return null;
    const isValid = async (): Promise<boolean> => {
      if (this.#open?.logins.has(login) !== true) return false;
      if (isTokenValid !== null) return isTokenValid();
      return (await this.#deps.sessions.get(sessionId))?.closedAt === null;
    };
    if (!(await isValid())) return null;
    return { kind: "session", actor: `session:${session.key}`, session, isTokenValid: isValid };
  }

  /** Closes the connections of logins that have ended, and the listener with the last one. */
  async #endExpired(): Promise<void> {
    const open = this.#open;
    if (open === null) return;
    const valid = new Set(open.logins.keys());
    for (const [cookieHash, connections] of open.connections)
      if (!valid.has(cookieHash)) {
        for (const socket of connections) socket.destroy();
        open.connections.delete(cookieHash);
      }
    await this.#inTurn(async () => {
      if (this.#open?.logins.inUse === false) await this.#close();
    });
  }

  async #store(port: number, logins: StoredDashboard["logins"]): Promise<void> {
    await writeStored(this.#deps.path, { port, logins }).catch((cause: unknown) =>
      this.#deps.onProblem("the logins of the dashboard could not be stored", cause),
    );
  }

  async #stopListening(): Promise<void> {
    const open = this.#open;
    this.#open = null;
    if (open === null) return;
    clearInterval(open.expiryTimer);
    for (const connections of open.connections.values()) for (const socket of connections) socket.destroy();
    await open.listener[Symbol.asyncDispose]();
  }
}
