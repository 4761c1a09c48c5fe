import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { contract, type RequestContext, validateInput } from "../../api/contract.js";
import { openApiDocument } from "../../api/openapi.js";
import { requireAcpSession } from "../../queries/acp.js";
import { acpUpdateResponse } from "../../queries/acp-responses.js";
import { resolveTask } from "../../queries/tasks.js";
import type { Authorizer } from "../../sessions/authorizer.js";
import type { EventFollower } from "../monitoring/event-follower.js";
import type { Metrics } from "../monitoring/metrics.js";
import type { HandlerDeps } from "../routes/handler-deps.js";
import { sendJson } from "./json-bodies.js";
import { PathPattern, type RequestTarget } from "./route-table.js";
import type { StreamingRoutes } from "./router.js";

const ACP_WATCH = new PathPattern(contract.acpWatch.path);
const TASK_EVENTS = new PathPattern(contract.taskEvents.path);

/** The streams, the metrics and the OpenAPI document. */
export function createStreamingRoutes(
  deps: HandlerDeps,
  events: EventFollower,
  metrics: Metrics,
): StreamingRoutes {
  return async (request, response, target, context) => {
    if (request.method !== "GET") return false;
    const { pathname, searchParams } = target;
    if (pathname === "/metrics" && context.requester.kind === "operator") {
      response.writeHead(200, { "content-type": "text/plain; version=0.0.4", "cache-control": "no-store" });
      response.end(await metrics.text());
      return true;
    }
    if (pathname === "/openapi.json") {
      sendJson(response, 200, openApiDocument());
      return true;
    }
    if (!["1", "true"].includes(searchParams.get("follow") ?? "")) return false;
    const pages = await openStream(deps, events, target, context);
    if (pages === null) return false;
    using _ = context.countStream();
    await sendNdjson(deps.authorizer, response, context, pages);
    return true;
  };
}

/** Null: the path names no stream that the requester may follow. */
async function openStream(
  deps: HandlerDeps,
  events: EventFollower,
  { pathname, searchParams }: RequestTarget,
  { requester, disconnected, enqueue }: RequestContext,
): Promise<AsyncIterable<readonly object[]> | null> {
  const { supervisor, authorizer } = deps;
  const given = Object.fromEntries(searchParams);
  // The pending approvals, then each new approval and each decision.
  if (pathname === contract.listApprovals.path && requester.kind === "operator") {
    validateInput(contract.listApprovals.query, given, "the query");
    return pagesOf(deps.approvals.follow(disconnected));
  }
  if (pathname === contract.events.path) {
    const { after, run } = validateInput(contract.events.query, given, "the query");
    const scope = authorizer.sessionScope(requester);
    const selection = {
      enqueue,
      ...(scope === null ? {} : { scope }),
      ...(run === undefined ? {} : { runId: await authorizer.maskRunId(supervisor, requester, run) }),
    };
    return events.follow(after, selection, disconnected);
  }
  const acpSession = ACP_WATCH.matchPath(pathname);
  if (acpSession !== null) {
    const { after } = validateInput(contract.acpWatch.query, given, "the query");
    const { sessionId } = await requireAcpSession(deps, requester, acpSession["id"] ?? "");
    return pagesOf(deps.acp.updates.follow(sessionId, after, disconnected), acpUpdateResponse);
  }
  const task = TASK_EVENTS.matchPath(pathname);
  if (task === null) return null;
  const { after } = validateInput(contract.taskEvents.query, given, "the query");
  const { taskId } = await resolveTask(deps, requester, task["id"] ?? "");
  return pagesOf(deps.tail.follow(taskId, after, disconnected));
}

async function* pagesOf<Row extends object>(
  rows: AsyncIterable<Row>,
  toResponse: (row: Row) => object = (row) => row,
): AsyncGenerator<readonly object[], void, undefined> {
  for await (const row of rows) yield [toResponse(row)];
}

/**
 * Sends one object per line until the stream ends, the caller disconnects or is no longer authorized. Waits for a slow
 * reader, so that no output is buffered.
 */
async function sendNdjson(
  authorizer: Authorizer,
  response: ServerResponse,
  { requester, disconnected }: RequestContext,
  pages: AsyncIterable<readonly object[]>,
): Promise<void> {
  response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
  response.flushHeaders();
  for await (const page of pages) {
    if (!(await authorizer.isStillAuthorized(requester))) break;
    for (const object of page)
      if (!response.write(`${JSON.stringify(object)}\n`))
        await once(response, "drain", { signal: disconnected }).catch(() => undefined);
  }
  response.end();
}
