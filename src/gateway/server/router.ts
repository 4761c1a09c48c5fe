import type { IncomingMessage, ServerResponse } from "node:http";
import {
  contract,
  GATEWAY_STOPPING,
  type RequestContext,
  type RouteHandlers,
  validateInput,
  type Verb,
} from "../../api/contract.js";
import { errorHeaders, httpStatusOf, toErrorResponse } from "../../api/error-response.js";
import type { Route } from "../../api/route.js";
import { CHALLENGE_PATH } from "../../api/token-proof.js";
import { defaults } from "../../defaults.js";
import {
  AcpClosed,
  AcpNotHeld,
  AcpTimeout,
  BadInput,
  NotFound,
  PeerUnreachable,
  SupervisorClosed,
  TooLarge,
  TooManyRequests,
} from "../../errors.js";
import type { Requester } from "../../sessions/requester.js";
import { answerChallenge } from "../auth/authentication.js";
import { isAcpVerb } from "../peers/locators.js";
import { proxyRequest } from "../peers/proxy.js";
import { createAcpHandlers } from "../routes/acp-sessions.js";
import { createAcpAgentHandlers } from "../routes/acp-agent.js";
import { createAcpRuleHandlers } from "../routes/permission-rules.js";
import { createAgentHandlers } from "../routes/agents.js";
import { createChannelHandlers } from "../routes/channels.js";
import type { HandlerDeps } from "../routes/deps.js";
import { createExecHandler } from "../routes/exec-as-task.js";
import { createGatewayHandlers } from "../routes/gateway.js";
import { createRunHandlers, createServiceHandlers } from "../routes/runs.js";
import { createApprovalHandlers, createSessionHandlers } from "../routes/sessions.js";
import { createTaskHandlers } from "../routes/tasks.js";
import type { AdmissionControl, CountedRequest } from "./admission-control.js";
import { RateLimiter, RequestPipelines } from "./request-limits.js";
import type { ListenerPolicy } from "./listeners.js";
import { assertAllowedHost } from "./local-listener.js";

/** The decoded parameters of `path` by the names in `pattern` (`/v1/runs/{runId}`). Null: no match. */
export function matchPath(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split("/");
  const given = path.split("/");
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [at, part] of wanted.entries()) {
    const found = given[at] ?? "";
    const [, name] = /^\{(\w+)\}$/.exec(part) ?? [];
    if (name === undefined) {
      if (part !== found) return null;
    } else {
      try {
        params[name] = decodeURIComponent(found);
      } catch {
        return null;
      }
    }
  }
  return params;
}

/** Routes whose response is a stream or not JSON. Resolves with true if the request was handled. */
export type StreamingRoutes = (
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
  context: RequestContext,
) => Promise<boolean>;

export interface RouterOptions {
  readonly handlers: RouteHandlers;
  readonly streamingRoutes: StreamingRoutes;
  readonly policy: ListenerPolicy;
  readonly admissionControl: AdmissionControl;
  /** Rejects with SessionStorageFull. */
  readonly assertStorageRoom: (requester: Requester) => Promise<void>;
  readonly isStopping: () => boolean;
  readonly onFailure: (error: unknown, what: string) => void;
}

/** The request listener of the API, for one listener policy. */
export function createRouter(
  options: RouterOptions,
): (request: IncomingMessage, response: ServerResponse) => void {
  const rateLimiter = new RateLimiter(defaults.requestsPerSecond, defaults.requestBurst);
  const pipelines = new RequestPipelines();
  return (request, response) => {
    const disconnected = new AbortController();
    response.once("close", () =>
      disconnected.abort(options.isStopping() ? GATEWAY_STOPPING : "the caller left"),
    );
    const onFailure = (error: unknown): void => {
      // Not logged: requests that broke off, or that the stopping gateway broke off or refused.
      const broken =
        request.errored !== null ||
        disconnected.signal.reason === GATEWAY_STOPPING ||
        error instanceof SupervisorClosed ||
        // Not logged either: an unreachable host.
        error instanceof PeerUnreachable ||
        isAgentFailure(error);
      if (httpStatusOf(error) >= 500 && !broken)
        options.onFailure(error, `${request.method ?? ""} ${request.url ?? ""}`);
      if (response.headersSent || response.destroyed) response.destroy();
      else sendJson(response, httpStatusOf(error), toErrorResponse(error), errorHeaders(error));
    };
    pipelines.add(request.socket, () =>
      handleRequest(options, rateLimiter, request, response, disconnected.signal).catch(onFailure),
    );
  };
}

/** Failures of agents are returned to the requester, not logged as failures of the gateway. */
function isAgentFailure(error: unknown): boolean {
  return error instanceof AcpClosed || error instanceof AcpTimeout;
}

async function handleRequest(
  options: RouterOptions,
  rateLimiter: RateLimiter,
  request: IncomingMessage,
  response: ServerResponse,
  disconnected: AbortSignal,
): Promise<void> {
  const { policy, admissionControl } = options;
  assertAllowedHost(policy.allowedHosts, request);
  if (policy.findTokenHash !== null && request.method === "GET" && request.url === CHALLENGE_PATH)
    return void sendJson(response, 200, await answerChallenge(policy.findTokenHash, request));
  const requester = await policy.authenticate(request);
  policy.connectionLimiter?.assign(request.socket, requester);
  if (!rateLimiter.tryTake(requester.actor))
    throw new TooManyRequests(`sent ${defaults.requestsPerSecond} requests in a second`);
  if (disconnected.aborted) return;
  const counted = admissionControl.request(requester);
  response.once("close", () => counted[Symbol.dispose]());
  // The caller may close the connection before its turn.
  await admissionControl.run(requester, () =>
    disconnected.aborted
      ? Promise.resolve()
      : dispatch(options, requester, counted, request, response, disconnected),
  );
}

/** Verbs that add records to the store. */
const STORING_VERBS: ReadonlySet<Verb> = new Set(["exec", "runAgent", "acpSpawn", "createTask"]);

async function dispatch(
  options: RouterOptions,
  requester: Requester,
  counted: CountedRequest,
  request: IncomingMessage,
  response: ServerResponse,
  disconnected: AbortSignal,
): Promise<void> {
  const { policy, admissionControl } = options;
  const url = requestUrl(request);
  const context: RequestContext = {
    requester,
    disconnected,
    fromPeer: policy.peersOnly,
    enqueue: (work) => admissionControl.run(requester, work),
    countStream: () => admissionControl.stream(requester),
  };
  if (!policy.peersOnly && (await options.streamingRoutes(request, response, url, context))) return;
  const found = findRoute(request.method ?? "", url.pathname);
  if (found === null) throw new NotFound(`${request.method ?? ""} ${url.pathname}`);
  const { verb, route, params } = found;
  // A route that the requester may not use answers like a path that does not exist.
  const byAgent = isAcpVerb(verb);
  // A peer requests a stop only if it cannot read the store, through which stops are handed over otherwise.
  const byOwner = byAgent || isAnsweredByOwner(verb) || (policy.peersOnly && verb === "kill");
  if ((route.audience === "operator" && requester.kind !== "operator") || (policy.peersOnly && !byOwner))
    throw new NotFound(`${request.method ?? ""} ${url.pathname}`);
  const named = validateInput(route.params, params, "the path");
  try {
    const peer = byAgent
      ? await policy.locateAcpSession(requester, verb, params["id"] ?? "")
      : byOwner
        ? await policy.locateRun(requester, params["runId"] ?? "")
        : null;
    if (peer !== null) return await proxyRequest(peer, requester, request, response, disconnected);
  } catch (error) {
    // Without its gateway, an ACP session is shown as stored.
    if (!(error instanceof AcpNotHeld) || verb !== "acpShow" || response.headersSent) throw error;
  }
  const input = {
    params: named,
    query: validateInput(route.query, Object.fromEntries(url.searchParams), "the query"),
    body: validateInput(
      route.body,
      route.method === "POST" ? await readBody(request, counted) : {},
      "the body",
    ),
  };
  if (STORING_VERBS.has(verb)) await options.assertStorageRoom(requester);
  const handler = options.handlers[verb] as (input: unknown, context: RequestContext) => Promise<unknown>;
  counted.countAnswer(sendJson(response, 200, await handler(input, context)));
}

/** Verbs that need only the store. All other verbs of a run need the gateway that owns it. */
const VERBS_ANSWERED_ANYWHERE: ReadonlySet<Verb> = new Set(["getRun", "kill", "remove"]);

function isAnsweredByOwner(verb: Verb): boolean {
  return contract[verb].path.includes("{runId}") && !VERBS_ANSWERED_ANYWHERE.has(verb);
}

export function requestUrl({ method = "", url = "/" }: IncomingMessage): URL {
  // `//x` would name another host.
  if (url.startsWith("/") && !url.startsWith("//")) return new URL(url, "http://gateway");
  throw new NotFound(`${method} ${url}`);
}

function findRoute(
  method: string,
  path: string,
): { readonly verb: Verb; readonly route: Route; readonly params: Record<string, string> } | null {
  for (const verb of Object.keys(contract) as Verb[]) {
    const route: Route = contract[verb];
    const params = route.method === method ? matchPath(route.path, path) : null;
    if (params !== null) return { verb, route, params };
  }
  return null;
}

async function readBody(request: IncomingMessage, counted: CountedRequest): Promise<unknown> {
  const parts: Buffer[] = [];
  let size = 0;
  // The request is not destroyed when it is too large, so that the error can be sent.
  for await (const part of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > defaults.requestBytes) throw new TooLarge(defaults.requestBytes);
    counted.countBody(part.length);
    parts.push(part);
  }
  if (size === 0) return {};
  try {
    return JSON.parse(Buffer.concat(parts).toString("utf8")) as unknown;
  } catch (error) {
    throw new BadInput("body", `the body is not JSON (${(error as Error).message}); nothing was done`);
  }
}

/** Returns the size of the response. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): number {
  const text = Buffer.from(JSON.stringify(body));
  response.writeHead(status, {
    ...headers,
    "content-type": "application/json",
    "content-length": text.length,
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  });
  response.end(text);
  return text.length;
}

/** One handler for each verb of the contract. */
export function createRouteHandlers(deps: HandlerDeps): RouteHandlers {
  return {
    ...createGatewayHandlers(deps),
    ...createRunHandlers(deps),
    ...createExecHandler(deps),
    ...createServiceHandlers(deps),
    ...createSessionHandlers(deps),
    ...createAgentHandlers(deps),
    ...createChannelHandlers(deps),
    ...createApprovalHandlers(deps),
    ...createTaskHandlers(deps),
    ...createAcpHandlers(deps),
    ...createAcpAgentHandlers(deps),
    ...createAcpRuleHandlers(deps),
  };
}
