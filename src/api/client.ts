import { once } from "node:events";
import { type IncomingMessage, request as httpRequest } from "node:http";
import { createInterface } from "node:readline";
import { text as readText } from "node:stream/consumers";
import { setTimeout } from "node:timers/promises";
import { GatewayUnreachable, HoldfastError } from "../errors.js";
import type { RequestOf, ResponseOf, Verb } from "./contract.js";
import { endpoints } from "./endpoints.js";
import { type ErrorResponse, GatewayError } from "./error-response.js";
import {
  AuthenticatedHttpAgent,
  type AuthenticatedRequestOptions,
  sendAuthenticated,
} from "./authenticated-http-agent.js";
import type { GatewayAddress } from "./authenticated-connection.js";
import type { Route } from "./route.js";

export { GatewayError } from "./error-response.js";

/** Not from the contract itself: its schemas take longer to load than most questions to be answered. */
const routeOf: Readonly<Record<Verb, Pick<Route, "method" | "path">>> = endpoints;

/** A full queue of connections is accepted within milliseconds; a second of it is a gateway in trouble. */
const CONNECT_RETRIES = 20;
const CONNECT_RETRY_MS = 50;

export type ClientOptions = GatewayAddress;

/** The input with optional parts. */
type PartialRequestOf<V extends Verb> = Partial<RequestOf<V>>;
export type GatewayClient = {
  readonly [V in Verb]: (input?: PartialRequestOf<V>, signal?: AbortSignal) => Promise<ResponseOf<V>>;
};

/**
 * Client with one function for each route of the gateway. The token is never sent: client and gateway prove to each other that
 * they know it, once per connection.
 */
export function createClient(options: ClientOptions): GatewayClient {
  const agent = new AuthenticatedHttpAgent(options);
  const verbs = Object.keys(routeOf) as Verb[];
  return Object.fromEntries(
    verbs.map((verb) => [
      verb,
      (input: PartialRequestOf<Verb> = {}, signal?: AbortSignal) =>
        callRoute(options, agent, verb, input, signal),
    ]),
  ) as GatewayClient;
}

async function callRoute(
  { socketPath }: ClientOptions,
  agent: AuthenticatedHttpAgent,
  verb: Verb,
  input: PartialRequestOf<Verb>,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  const { method, path } = routeOf[verb];
  const params: Readonly<Record<string, string>> = input.params ?? {};
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
  const search = new URLSearchParams();
  const query = (input.query ?? {}) as Readonly<Record<string, string | number | undefined>>;
  for (const [name, value] of Object.entries(query)) if (value !== undefined) search.set(name, String(value));
  const target = search.size === 0 ? filled : `${filled}?${search.toString()}`;
  const body = method === "POST" ? JSON.stringify(input.body ?? {}) : null;
  const { status, text } = await retryWhileQueueFull(() =>
    sendRequest(socketPath, agent, method, target, body, signal),
  );
  const answer = parseJson(text);
  if (status >= 200 && status < 300) return answer;
  const error = (answer as Partial<ErrorResponse> | null)?.error;
  throw new GatewayError(error ?? { code: "INTERNAL", message: `the gateway answered ${status}` });
}

/** A connect to a Unix socket with a full backlog fails before anything is sent, so it can be retried. */
async function retryWhileQueueFull<T>(attempt: () => Promise<T>): Promise<T> {
  for (let left = CONNECT_RETRIES; ; left--)
    try {
      return await attempt();
    } catch (error) {
      const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
      if (code !== "EAGAIN" || left === 0) throw error;
      await setTimeout(CONNECT_RETRY_MS);
    }
}

function sendRequest(
  socketPath: string,
  agent: AuthenticatedHttpAgent,
  method: string,
  path: string,
  body: string | null,
  signal: AbortSignal | undefined,
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const failed = (cause: NodeJS.ErrnoException): void => {
      if (signal?.aborted === true || cause instanceof HoldfastError) return reject(cause);
      const isDown = cause.code === "ENOENT" || cause.code === "ECONNREFUSED";
      const why = isDown
        ? `no gateway listens on ${socketPath}`
        : `the gateway on ${socketPath} broke off: ${cause.message}`;
      reject(new GatewayUnreachable(why, { cause }));
    };
    const options: AuthenticatedRequestOptions = {
      agent,
      socketPath,
      method,
      path,
      ...(signal === undefined ? {} : { signal, proofSignal: signal }),
      headers:
        body === null
          ? {}
          : { "content-type": "application/json", "content-length": Buffer.byteLength(body) },
    };
    const request = httpRequest(options, (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("error", failed);
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString("utf8") }),
      );
    });
    request.on("error", failed);
    sendAuthenticated(request, body ?? undefined);
  });
}

/** Null: the text is not JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}

/**
 * Yields the objects of a stream with one JSON object per line. Returns whether the gateway ended the stream; false if the
 * connection broke.
 */
export async function* followNdjson<Line>(
  address: GatewayAddress,
  path: string,
  signal?: AbortSignal,
): AsyncGenerator<Line, boolean, undefined> {
  const { socketPath } = address;
  const options = signal === undefined ? {} : { signal };
  const request = httpRequest({ agent: new AuthenticatedHttpAgent(address), socketPath, path, ...options });
  sendAuthenticated(request);
  try {
    const [response] = (await once(request, "response").catch((cause: unknown) => {
      if (cause instanceof HoldfastError) throw cause;
      throw new GatewayUnreachable(`no gateway listens on ${socketPath}`, { cause });
    })) as [IncomingMessage];
    if (response.statusCode !== 200)
      throw new GatewayError((JSON.parse(await readText(response)) as ErrorResponse).error);
    // A disconnect of the caller is not an error.
    response.on("error", () => undefined);
    const lines = createInterface({ input: response });
    lines.on("error", () => undefined);
    const each = lines[Symbol.asyncIterator]();
    for (;;) {
      // The connection may break in the middle of a line.
      const next = await each.next().catch(() => null);
      const line = next?.done === false ? parseJson(next.value) : null;
      if (line === null) return response.complete;
      yield line as Line;
    }
  } finally {
    request.on("error", () => undefined).destroy();
  }
}
