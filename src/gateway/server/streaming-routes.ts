import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { contract } from "../../api/contract.js";
import { openApiDocument } from "../../api/openapi.js";
import type { AcpUpdate } from "../../model/acp.js";
import { acpUpdateResponse, requireAcpSession } from "../../queries/acp.js";
import { resolveTask, type TaskQueryDeps } from "../../queries/tasks.js";
import type { Approvals } from "../../sessions/approvals.js";
import type { Authorizer } from "../../sessions/authorizer.js";
import type { Supervisor } from "../../supervisor/api.js";
import type { TaskEventFollower } from "../background/task-event-follower.js";
import type { Metrics } from "../monitoring/metrics.js";
import type { AcpHandlerDeps } from "../routes/acp.js";
import type { EventFollower } from "./event-follower.js";
import { matchPath, sendJson, type StreamingRoutes } from "./router.js";
import { type RequestContext, validateInput } from "../../api/handler.js";

/** The streams, the metrics and the OpenAPI document. */
export function createStreamingRoutes(
  supervisor: Supervisor,
  events: EventFollower,
  authorizer: Authorizer,
  metrics: Metrics,
  approvals: Approvals,
  acpDeps: AcpHandlerDeps,
  taskDeps: TaskQueryDeps & { readonly tail: TaskEventFollower },
): StreamingRoutes {
  return async (request, response, url, context) => {
    if (request.method !== "GET") return false;
    if (url.pathname === "/metrics" && context.requester.kind === "operator") {
      response.writeHead(200, { "content-type": "text/plain; version=0.0.4", "cache-control": "no-store" });
      response.end(await metrics.text());
      return true;
    }
    if (url.pathname === "/openapi.json") {
      sendJson(response, 200, openApiDocument());
      return true;
    }
    if (
      url.pathname === contract.listApprovals.path &&
      context.requester.kind === "operator" &&
      url.searchParams.has("follow")
    ) {
      const { follow } = validateInput(
        contract.listApprovals.query,
        Object.fromEntries(url.searchParams),
        "the query",
      );
      if (follow === true) await followApprovals(approvals, response, context.disconnected);
      return follow === true;
    }
    const watched = matchPath(contract.acpWatch.path, url.pathname);
    if (watched !== null && ["1", "true"].includes(url.searchParams.get("follow") ?? "")) {
      using _ = context.countStream();
      await followAcp(acpDeps, watched["id"] ?? "", response, url, context);
      return true;
    }
    const task = matchPath(contract.taskEvents.path, url.pathname);
    if (task !== null && ["1", "true"].includes(url.searchParams.get("follow") ?? "")) {
      const { after } = validateInput(
        contract.taskEvents.query,
        Object.fromEntries(url.searchParams),
        "the query",
      );
      const { taskId } = await resolveTask(taskDeps, context.requester, task["id"] ?? "");
      using _ = context.countStream();
      await sendNdjson(
        authorizer,
        response,
        context,
        taskDeps.tail.follow(taskId, after, context.disconnected),
      );
      return true;
    }
    if (
      url.pathname === contract.events.path &&
      ["1", "true"].includes(url.searchParams.get("follow") ?? "")
    ) {
      using _ = context.countStream();
      await followEvents(supervisor, events, authorizer, response, url, context);
      return true;
    }
    return false;
  };
}

/** Sends the pending approvals, then each new approval and each decision, until the caller disconnects. */
async function followApprovals(
  approvals: Approvals,
  response: ServerResponse,
  disconnected: AbortSignal,
): Promise<void> {
  response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
  response.flushHeaders();
  for await (const approval of approvals.follow(disconnected))
    if (!response.write(`${JSON.stringify(approval)}\n`))
      await once(response, "drain", { signal: disconnected }).catch(() => undefined);
  response.end();
}

/** Sends updates until the session is closed or the caller disconnects. */
async function followAcp(
  deps: AcpHandlerDeps,
  id: string,
  response: ServerResponse,
  url: URL,
  { requester, disconnected }: Pick<RequestContext, "requester" | "disconnected">,
): Promise<void> {
  const { after } = validateInput(contract.acpWatch.query, Object.fromEntries(url.searchParams), "the query");
  const { sessionId } = await requireAcpSession(deps, requester, id);
  await sendNdjson(
    deps.authorizer,
    response,
    { requester, disconnected },
    acpUpdateResponses(deps.acp.updates.follow(sessionId, after, disconnected)),
  );
}

async function* acpUpdateResponses(
  updates: AsyncIterable<AcpUpdate>,
): AsyncGenerator<object, void, undefined> {
  for await (const update of updates) yield acpUpdateResponse(update);
}

/** Sends one object per line until the caller disconnects or is no longer authorized. */
async function sendNdjson(
  authorizer: Authorizer,
  response: ServerResponse,
  { requester, disconnected }: Pick<RequestContext, "requester" | "disconnected">,
  objects: AsyncIterable<object>,
): Promise<void> {
  response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
  response.flushHeaders();
  for await (const object of objects) {
    if (!(await authorizer.isStillAuthorized(requester))) break;
    if (!response.write(`${JSON.stringify(object)}\n`))
      await once(response, "drain", { signal: disconnected }).catch(() => undefined);
  }
  response.end();
}

/** Sends one event per line until the caller disconnects. Waits for a slow reader, so that no output is buffered. */
async function followEvents(
  supervisor: Supervisor,
  events: EventFollower,
  authorizer: Authorizer,
  response: ServerResponse,
  url: URL,
  { requester, disconnected, enqueue }: RequestContext,
): Promise<void> {
  const { after, run } = validateInput(
    contract.events.query,
    Object.fromEntries(url.searchParams),
    "the query",
  );
  const scope = authorizer.sessionScope(requester);
  const view = {
    enqueue,
    ...(scope === null ? {} : { scope }),
    ...(run === undefined ? {} : { runId: await authorizer.maskRunId(supervisor, requester, run) }),
  };
  response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
  response.flushHeaders();
  for await (const page of events.follow(after, view, disconnected)) {
    if (!(await authorizer.isStillAuthorized(requester))) break;
    for (const event of page)
      if (!response.write(`${JSON.stringify(event)}\n`))
        await once(response, "drain", { signal: disconnected }).catch(() => undefined);
  }
  response.end();
}
