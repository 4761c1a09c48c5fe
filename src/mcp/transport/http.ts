import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createMcpHandler, isLegacyRequest, type McpHttpHandler } from "@modelcontextprotocol/server";
import { GATEWAY_STOPPING } from "../../api/contract.js";
import type { SessionConnection, SessionConnector } from "../session/session-connection.js";
import { connectSession } from "../session/connect-session.js";
import { LegacySessions } from "./legacy-sessions.js";
import { createMcpServer } from "../server.js";
import { countListen, parseListenRequest, serveListen } from "../resources/subscriptions.js";

interface HttpExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Null: the request has none. */
  readonly body: Buffer | null;
  /** The token of the session, which was checked. */
  readonly token: string;
  /** Aborts when the client leaves. */
  readonly signal: AbortSignal;
  /** Counts an open stream of the session until it is disposed. Throws TooManyStreams. */
  readonly countStream: () => Disposable;
}

/** The connections that are kept for further requests with the same token. */
const MAX_CONNECTIONS = 256;

/** MCP over Streamable HTTP. */
export class McpHttp implements AsyncDisposable {
  readonly #handler: McpHttpHandler;
  readonly #legacySessions: LegacySessions;
  readonly #socketPath: string;
  readonly #connections = new Map<string, SessionConnection>();
  /** The gateway has begun to close connections. */
  #stopping = false;

  constructor(version: string, socketPath: string) {
    this.#socketPath = socketPath;
    const options = (token: string) => ({ version, connector: this.#connector(token) });
    this.#handler = createMcpHandler((context) => createMcpServer(options(context.authInfo?.token ?? "")), {
      legacy: "reject",
    });
    this.#legacySessions = new LegacySessions((token) => createMcpServer(options(token)));
  }

  async serve(exchange: HttpExchange): Promise<void> {
    const { request, response, body, token, signal } = exchange;
    // Added before the listener of the SDK, which cancels the calls.
    signal.addEventListener("abort", () => (this.#stopping ||= signal.reason === GATEWAY_STOPPING), {
      once: true,
    });
    const { method = "GET", url = "/" } = request;
    const init = { method, headers: headersOf(request), signal, ...(body === null ? {} : { body }) };
    // Only its path matters; the router has checked the host.
    const asked = new Request(new URL(url, "http://gateway"), init);
    const parsedBody = body === null ? undefined : parseJson(body);
    const answer =
      parsedBody !== undefined && !(await isLegacyRequest(asked, parsedBody))
        ? await this.#serveModern(asked, parsedBody, exchange)
        : await this.#legacySessions.serve(asked, parsedBody, token, signal);
    if (answer === null) return;
    await sendResponse(response, answer, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handler.close();
    await this.#legacySessions[Symbol.asyncDispose]();
  }

  /** Null: the request was answered with a stream of notifications. */
  async #serveModern(
    request: Request,
    parsedBody: unknown,
    { response, token, signal, countStream }: HttpExchange,
  ): Promise<Response | null> {
    const authInfo = { token, clientId: "session", scopes: [] };
    const answer = await this.#handler.fetch(request, { authInfo, parsedBody });
    const listen = parseListenRequest(parsedBody);
    // The SDK has checked the request; it would send no notification, because it knows neither tasks nor who reads what.
    if (listen === null || answer.headers.get("content-type") !== "text/event-stream") return answer;
    await answer.body?.cancel();
    const connection = this.#connect(token);
    using _followed = countListen(connection, listen);
    using _stream = countStream();
    await sendNotifications(response, signal, (send) => serveListen(connection, listen, send, signal));
    return null;
  }

  #connector(token: string): SessionConnector {
    return { connect: () => Promise.resolve(this.#connect(token)) };
  }

  #connect(token: string): SessionConnection {
    const connection =
      this.#connections.get(token) ??
      connectSession(
        { address: { socketPath: this.#socketPath, token }, cwd: null, environment: null },
        { isStopping: () => this.#stopping },
      );
    // The most recently used connection is the last of the map.
    this.#connections.delete(token);
    this.#connections.set(token, connection);
    const [oldest] = this.#connections.keys();
    if (this.#connections.size > MAX_CONNECTIONS && oldest !== undefined) this.#connections.delete(oldest);
    return connection;
  }
}

/** Undefined: the body is not JSON. */
function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8")) as unknown;
  } catch {
    return undefined;
  }
}

function headersOf({ headers }: IncomingMessage): Headers {
  const result = new Headers();
  for (const [name, value] of Object.entries(headers))
    for (const each of Array.isArray(value) ? value : [value])
      if (each !== undefined) result.append(name, each);
  return result;
}

/** Reads no faster than the client. */
async function sendResponse(
  response: ServerResponse,
  { status, headers, body }: Response,
  signal: AbortSignal,
): Promise<void> {
  if (response.destroyed) return body?.cancel();
  response.writeHead(status, { ...Object.fromEntries(headers), "x-content-type-options": "nosniff" });
  if (body === null) return void response.end();
  response.flushHeaders();
  const reader = body.getReader();
  response.once("close", () => void reader.cancel().catch(() => undefined));
  for (;;) {
    const next = await reader.read();
    if (next.done) return void response.end();
    if (!response.write(next.value)) await once(response, "drain", { signal }).catch(() => undefined);
  }
}

const KEEP_ALIVE_MS = 15_000;

/** An event stream that stays open until the client closes it. Nothing more is sent while the client does not read. */
async function sendNotifications(
  response: ServerResponse,
  signal: AbortSignal,
  serve: (send: (message: object) => Promise<void>) => Promise<void>,
): Promise<void> {
  response.writeHead(200, {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
  });
  response.flushHeaders();
  let drained: Promise<unknown> | null = null;
  const write = async (frame: string): Promise<void> => {
    while (drained !== null) await drained;
    if (response.destroyed || response.write(frame)) return;
    drained = once(response, "drain", { signal })
      .catch(() => undefined)
      .finally(() => (drained = null));
  };
  const keepAlive = setInterval(() => {
    if (drained === null) void write(": keepalive\n\n");
  }, KEEP_ALIVE_MS);
  try {
    await serve((message) => write(`event: message\ndata: ${JSON.stringify(message)}\n\n`));
    if (!signal.aborted) await once(signal, "abort");
  } finally {
    clearInterval(keepAlive);
    response.end();
  }
}
