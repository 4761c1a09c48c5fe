import { randomUUID } from "node:crypto";
import { type JSONRPCMessage, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { defaults } from "../../defaults.js";
import type { SdkServer } from "../sdk-server.js";

interface LegacySession {
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly server: SdkServer;
  readonly token: string;
  /** Requests and streams that are not over. */
  open: number;
  /** Forgets the session, unless it is used again before. */
  idle: NodeJS.Timeout | null;
  /** The client reads the stream of notifications. */
  listening: boolean;
  /** Notifications for a client that does not listen yet, or not now, each once: the SDK would drop them. */
  readonly held: Map<string, JSONRPCMessage>;
}

export interface LegacySessionLimits {
  readonly all: number;
  readonly ofToken: number;
  readonly idleMs: number;
}

const LIMITS: LegacySessionLimits = {
  all: defaults.mcpLegacySessions,
  ofToken: defaults.mcpLegacySessionsOfToken,
  idleMs: defaults.mcpLegacyIdleMs,
};

/**
 * Clients of the revisions up to 2025-11-25, which open a session of the protocol with `initialize`. Sessions of the
 * protocol are kept in memory: after a restart of the gateway, when too many others were used since, or after a long
 * silence, a client is told to initialize again.
 */
export class LegacySessions implements AsyncDisposable {
  readonly #createServer: (token: string) => SdkServer;
  readonly #limits: LegacySessionLimits;
  /** By id, the most recently used last. */
  readonly #sessions = new Map<string, LegacySession>();

  constructor(createServer: (token: string) => SdkServer, limits = LIMITS) {
    this.#createServer = createServer;
    this.#limits = limits;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /** Answers a request. Its calls are cancelled when `signal` aborts: they belong to the connection. */
  async serve(request: Request, body: unknown, token: string, signal: AbortSignal): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    const session = id === null ? await this.#open(token) : this.#use(id, token);
    if (session === null) return notFound();
    const { transport } = session;
    const requests = requestIds(body);
    this.#begin(session);
    let listens = false;
    const end = (): void => {
      if (listens) session.listening = false;
      for (const each of requests) cancelRequest(transport, each);
      this.#end(session);
    };
    if (signal.aborted) end();
    else signal.addEventListener("abort", end, { once: true });
    const answer = await transport.handleRequest(request, body === undefined ? {} : { parsedBody: body });
    if (transport.sessionId === undefined) await session.server.close();
    if (request.method === "GET" && answer.ok && !signal.aborted) {
      [listens, session.listening] = [true, true];
      sendHeld(session);
    }
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const open = [...this.#sessions.values()];
    this.#sessions.clear();
    for (const { idle } of open) clearTimeout(idle ?? undefined);
    await Promise.all(open.map(({ server }) => server.close()));
  }

  #begin(session: LegacySession): void {
    session.open += 1;
    clearTimeout(session.idle ?? undefined);
  }

  #end(session: LegacySession): void {
    session.open -= 1;
    const id = session.transport.sessionId;
    if (session.open > 0 || id === undefined || this.#sessions.get(id) !== session) return;
    session.idle = setTimeout(() => this.#forget(id), this.#limits.idleMs).unref();
  }

  #forget(id: string): void {
    const session = this.#sessions.get(id);
    this.#sessions.delete(id);
    void session?.server.close();
  }

  /** The session of another token is not found. */
  #use(id: string, token: string): LegacySession | null {
    const session = this.#sessions.get(id);
    if (session === undefined || session.token !== token) return null;
    this.#sessions.delete(id);
    this.#sessions.set(id, session);
    return session;
  }

  /** Registered once the client has initialized it; until then it answers one request. */
  async #open(token: string): Promise<LegacySession> {
    const server = this.#createServer(token);
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => this.#add(id, session),
      onsessionclosed: (id) => void this.#sessions.delete(id),
    });
    const session: LegacySession = {
      ...{ transport, server, token, open: 0, idle: null, listening: false },
      held: new Map(),
    };
    await server.connect(transport);
    const send = transport.send.bind(transport);
    transport.send = async (message, options) => {
      if (session.listening || options?.relatedRequestId !== undefined || !isNotification(message))
        return send(message, options);
      const key = JSON.stringify(message);
      if (session.held.size < defaults.mcpFollowed) session.held.set(key, message);
    };
    return session;
  }

  #add(id: string, session: LegacySession): void {
    this.#sessions.set(id, session);
    const ofToken = [...this.#sessions].filter(([, { token }]) => token === session.token);
    if (ofToken.length > this.#limits.ofToken) return this.#forget(ofToken[0]?.[0] ?? id);
    const [oldest = id] = this.#sessions.keys();
    if (this.#sessions.size > this.#limits.all) this.#forget(oldest);
  }
}

function isNotification(message: JSONRPCMessage): boolean {
  return "method" in message && !("id" in message);
}

function sendHeld({ transport, held }: LegacySession): void {
  const messages = [...held.values()];
  held.clear();
  for (const each of messages) void transport.send(each).catch(() => undefined);
}

function notFound(): Response {
  const error = { code: -32_001, message: "Session not found; initialize again" };
  return Response.json({ jsonrpc: "2.0", id: null, error }, { status: 404 });
}

function requestIds(body: unknown): readonly (string | number)[] {
  return (Array.isArray(body) ? (body as unknown[]) : [body]).flatMap((message) => {
    const { id, method } = (message ?? {}) as { readonly id?: unknown; readonly method?: unknown };
    return typeof method === "string" && (typeof id === "string" || typeof id === "number") ? [id] : [];
  });
}

function cancelRequest(
  transport: WebStandardStreamableHTTPServerTransport,
  requestId: string | number,
): void {
  const message: JSONRPCMessage = {
    jsonrpc: "2.0",
    method: "notifications/cancelled",
    params: { requestId, reason: "the client left" },
  };
  transport.onmessage?.(message);
}
