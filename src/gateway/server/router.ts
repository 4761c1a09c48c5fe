import type { IncomingMessage, ServerResponse } from "node:http";
import {
  GATEWAY_STOPPING,
  type RequestContext,
  type RouteHandlers,
  validateInput,
  type Verb,
} from "../../api/contract.js";
import { errorHeaders, httpStatusOf, toErrorResponse } from "../../api/error-response.js";
import { CHALLENGE_PATH } from "../../api/token-proof.js";
import {
  AcpClosed,
  AcpNotHeld,
  AcpTimeout,
  NotFound,
  PeerUnreachable,
  SupervisorClosed,
  TooManyRequests,
} from "../../errors.js";
import type { Requester } from "../../sessions/requester.js";
import { answerChallenge } from "../auth/authentication.js";
import { proxyRequest } from "../peers/proxy.js";
import { createAcpHandlers } from "../routes/acp/sessions.js";
import { createAcpAgentHandlers } from "../routes/acp/agent.js";
import { createAcpRuleHandlers } from "../routes/acp/permission-rules.js";
import { createAgentHandlers } from "../routes/agents.js";
import { createChannelHandlers } from "../routes/channels.js";
import type { HandlerDeps } from "../routes/handler-deps.js";
import { createDashboardHandlers } from "../routes/dashboard.js";
import { createExecHandler } from "../routes/exec-as-task.js";
import { createGatewayHandlers } from "../routes/gateway.js";
import { createRunViewHandler } from "../routes/view-runs.js";
import { createRunHandlers } from "../routes/runs.js";
import { createServiceHandlers } from "../routes/services.js";
import { createApprovalHandlers } from "../routes/approvals.js";
import { createSessionHandlers } from "../routes/sessions.js";
import { createTaskHandlers } from "../routes/tasks.js";
import { type AdmissionControl, type CountedRequest, NOT_COUNTED } from "./admission-control.js";
import { readJson, sendJson } from "./json-bodies.js";
import { RequestPipelines, RequestRateLimiter } from "./request-limits.js";
import type { ListenerPolicy } from "./listeners.js";
import { MCP_PATH, type McpEndpoint } from "./mcp-endpoint.js";
import { assertAllowedHost } from "./loopback-listener.js";
import { findRoute, type RequestTarget, requestTarget } from "./route-table.js";

/** Routes whose response is a stream or not JSON. Resolves with true if the request was handled. */
export type StreamingRoutes = (
  request: IncomingMessage,
  response: ServerResponse,
  target: RequestTarget,
  context: RequestContext,
) => Promise<boolean>;

interface RouterOptions {
  readonly handlers: RouteHandlers;
  readonly streamingRoutes: StreamingRoutes;
  readonly mcpEndpoint: McpEndpoint;
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
  const rateLimiter = new RequestRateLimiter();
  const pipelines = new RequestPipelines();
  return (request, response) => {
    const handled = new HandledRequest(options, request, response);
    pipelines.add(request.socket, () =>
      handleRequest(options, rateLimiter, handled).catch((error: unknown) => handled.fail(error)),
    );
  };
}

/** A request and its response. The signal is created when a handler first reads it. */
class HandledRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly #options: RouterOptions;
  #disconnected: AbortSignal | null = null;

  constructor(options: RouterOptions, request: IncomingMessage, response: ServerResponse) {
    this.request = request;
    this.response = response;
    this.#options = options;
  }

  /** Aborts when the connection is closed, or the response is sent. */
  get disconnected(): AbortSignal {
    if (this.#disconnected !== null) return this.#disconnected;
    const controller = new AbortController();
    this.#disconnected = controller.signal;
    const abort = (): void =>
      controller.abort(this.#options.isStopping() ? GATEWAY_STOPPING : "the caller left");
    if (this.response.closed) abort();
    else this.response.once("close", abort);
    return controller.signal;
  }

  fail(error: unknown): void {
    const { request, response } = this;
    // Not logged: requests that broke off, or that the stopping gateway broke off or refused.
    const broken =
      request.errored !== null ||
      (response.closed && this.#options.isStopping()) ||
      error instanceof SupervisorClosed ||
      // Not logged either: an unreachable host.
      error instanceof PeerUnreachable ||
      isAgentFailure(error);
    if (httpStatusOf(error) >= 500 && !broken)
      this.#options.onFailure(error, `${request.method ?? ""} ${request.url ?? ""}`);
    if (response.headersSent || response.destroyed) response.destroy();
    else sendJson(response, httpStatusOf(error), toErrorResponse(error), errorHeaders(error));
  }
}

/** Failures of agents are returned to the requester, not logged as failures of the gateway. */
function isAgentFailure(error: unknown): boolean {
  return error instanceof AcpClosed || error instanceof AcpTimeout;
}

async function handleRequest(
  options: RouterOptions,
  rateLimiter: RequestRateLimiter,
  handled: HandledRequest,
): Promise<void> {
  const { policy, admissionControl } = options;
  const { request, response } = handled;
  assertAllowedHost(policy.allowedHosts, request);
  if (policy.findTokenHash !== null && request.method === "GET" && request.url === CHALLENGE_PATH)
    return void sendJson(response, 200, await answerChallenge(policy.findTokenHash, request));
  const requester = await policy.authenticate(request);
  policy.connectionLimiter?.assign(request.socket, requester);
  const perSecond = rateLimiter.tryTake(requester);
  if (perSecond !== null) throw new TooManyRequests(`sent ${perSecond} requests in a second`);
  if (response.closed) return;
  const counted = admissionControl.request(requester);
  if (counted !== NOT_COUNTED) response.once("close", () => counted[Symbol.dispose]());
  // The caller may close the connection before its turn.
  await admissionControl.run(requester, () =>
    response.closed ? Promise.resolve() : dispatch(options, requester, counted, handled),
  );
}

/** Verbs that add records to the store. */
const STORING_VERBS: ReadonlySet<Verb> = new Set(["exec", "runAgent", "acpSpawn", "createTask"]);

async function dispatch(
  options: RouterOptions,
  requester: Requester,
  counted: CountedRequest,
  handled: HandledRequest,
): Promise<void> {
  const { policy, admissionControl } = options;
  const { request, response } = handled;
  const target = requestTarget(request);
  const { method = "" } = request;
  const context: RequestContext = {
    requester,
    get disconnected() {
      return handled.disconnected;
    },
    fromPeer: policy.peersOnly,
    enqueue: (work) => admissionControl.run(requester, work),
    countStream: () => admissionControl.stream(requester),
  };
  if (!policy.peersOnly && target.pathname === MCP_PATH)
    return options.mcpEndpoint.serve(request, response, context, counted);
  if (!policy.peersOnly && (await options.streamingRoutes(request, response, target, context))) return;
  const found = findRoute(method, target.pathname);
  if (found === null) throw new NotFound(`${method} ${target.pathname}`);
  const { verb, route, byAgent } = found.entry;
  // A peer requests a stop only if it cannot read the store, through which stops are handed over otherwise.
  const byOwner = byAgent || found.entry.byOwner || (policy.peersOnly && verb === "kill");
  // A route that the requester may not use answers like a path that does not exist.
  if ((route.audience === "operator" && requester.kind !== "operator") || (policy.peersOnly && !byOwner))
    throw new NotFound(`${method} ${target.pathname}`);
  const params = validateInput(route.params, found.params, "the path") as Readonly<Record<string, string>>;
  try {
    const peer = byAgent
      ? await policy.locateAcpSession(requester, verb, params["id"] ?? "")
      : byOwner
        ? await policy.locateRun(requester, params["runId"] ?? "")
        : null;
    if (peer !== null) return await proxyRequest(peer, requester, request, response, handled.disconnected);
  } catch (error) {
    // Without its gateway, an ACP session is shown as stored.
    if (!(error instanceof AcpNotHeld) || verb !== "acpShow" || response.headersSent) throw error;
  }
  const input = {
    params,
    query: validateInput(route.query, queryOf(target), "the query"),
    body: validateInput(
      route.body,
      route.method === "POST" ? await readJson(request, counted) : {},
      "the body",
    ),
  };
  if (STORING_VERBS.has(verb)) await options.assertStorageRoom(requester);
  const handler = options.handlers[verb] as (input: unknown, context: RequestContext) => Promise<unknown>;
  counted.countAnswer(sendJson(response, 200, await handler(input, context)));
}

function queryOf({ searchParams }: RequestTarget): Record<string, string> {
  return searchParams.size === 0 ? {} : Object.fromEntries(searchParams);
}

/** One handler for each verb of the contract. */
export function createRouteHandlers(deps: HandlerDeps): RouteHandlers {
  return {
    ...createGatewayHandlers(deps),
    ...createDashboardHandlers(deps),
    ...createRunViewHandler(deps),
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
