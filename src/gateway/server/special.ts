import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { Approvals } from "../../sessions/approvals.js";
import type { AcpUpdate } from "../../store/acp-record.js";
import type { Supervisor } from "../../supervisor/api.js";
import { contract } from "../contract/contract.js";
import type { EventTail } from "../event-tail.js";
import type { AcpDesk } from "../handlers/acp.js";
import { visibleAcp } from "../handlers/acp-reading.js";
import { visibleTask, type TaskReadingDesk } from "../handlers/task-reading.js";
import { updateOf } from "../handlers/acp-shown.js";
import type { Metrics } from "../metrics.js";
import type { Sights } from "../sights.js";
import type { TaskTail } from "../work/task-tail.js";
import type { Asking, Special } from "./app.js";
import { parse, sendJson } from "./app.js";
import { matchPath } from "./match-path.js";
import { openApi } from "./openapi.js";

/** What is no question with one answer: streams, and the description of everything. */
export function serveSpecial(
  supervisor: Supervisor,
  events: EventTail,
  sights: Sights,
  metrics: Metrics,
  approvals: Approvals,
  acp: AcpDesk,
  tasks: TaskReadingDesk & { readonly tail: TaskTail },
): Special {
  return async (request, response, url, asking) => {
    if (request.method !== "GET") return false;
    if (url.pathname === "/metrics" && asking.requester.kind === "operator") {
      response.writeHead(200, { "content-type": "text/plain; version=0.0.4", "cache-control": "no-store" });
      response.end(await metrics.text());
      return true;
    }
    if (url.pathname === "/openapi.json") {
      sendJson(response, 200, openApi());
      return true;
    }
    if (
      url.pathname === contract.listApprovals.path &&
      asking.requester.kind === "operator" &&
      url.searchParams.has("follow")
    ) {
      const { follow } = parse(
        contract.listApprovals.query,
        Object.fromEntries(url.searchParams),
        "the query",
      );
      if (follow === true) await followApprovals(approvals, response, asking.gone);
      return follow === true;
    }
    const watched = matchPath(contract.acpWatch.path, url.pathname);
    if (watched !== null && ["1", "true"].includes(url.searchParams.get("follow") ?? "")) {
      using _ = asking.stream();
      await followAcp(acp, watched["id"] ?? "", response, url, asking);
      return true;
    }
    const task = matchPath(contract.taskEvents.path, url.pathname);
    if (task !== null && ["1", "true"].includes(url.searchParams.get("follow") ?? "")) {
      const { after } = parse(contract.taskEvents.query, Object.fromEntries(url.searchParams), "the query");
      const { taskId } = await visibleTask(tasks, asking.requester, task["id"] ?? "");
      using _ = asking.stream();
      await sendLines(sights, response, asking, tasks.tail.follow(taskId, after, asking.gone));
      return true;
    }
    if (
      url.pathname === contract.events.path &&
      ["1", "true"].includes(url.searchParams.get("follow") ?? "")
    ) {
      using _ = asking.stream();
      await followEvents(supervisor, events, sights, response, url, asking);
      return true;
    }
    return false;
  };
}

/** Those that wait, then every question and every end of one, for as long as the caller reads. */
async function followApprovals(
  approvals: Approvals,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
  response.flushHeaders();
  for await (const approval of approvals.follow(gone))
    if (!response.write(`${JSON.stringify(approval)}\n`))
      await once(response, "drain", { signal: gone }).catch(() => undefined);
  response.end();
}

/** From a number on, for as long as the session is open and the caller reads. */
async function followAcp(
  desk: AcpDesk,
  id: string,
  response: ServerResponse,
  url: URL,
  { requester, gone }: Pick<Asking, "requester" | "gone">,
): Promise<void> {
  const { after } = parse(contract.acpWatch.query, Object.fromEntries(url.searchParams), "the query");
  const { sessionId } = await visibleAcp(desk, requester, id);
  await sendLines(
    desk.sights,
    response,
    { requester, gone },
    shown(desk.acp.tail.follow(sessionId, after, gone)),
  );
}

async function* shown(updates: AsyncIterable<AcpUpdate>): AsyncGenerator<object, void, undefined> {
  for await (const update of updates) yield updateOf(update);
}

/** One object per line, for as long as the caller reads and may. */
async function sendLines(
  sights: Sights,
  response: ServerResponse,
  { requester, gone }: Pick<Asking, "requester" | "gone">,
  objects: AsyncIterable<object>,
): Promise<void> {
  response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
  response.flushHeaders();
  for await (const object of objects) {
    if (!(await sights.acts(requester))) break;
    if (!response.write(`${JSON.stringify(object)}\n`))
      await once(response, "drain", { signal: gone }).catch(() => undefined);
  }
  response.end();
}

/** One event per line, for as long as the caller reads; a slow reader is waited for, and nothing piles up. */
async function followEvents(
  supervisor: Supervisor,
  events: EventTail,
  sights: Sights,
  response: ServerResponse,
  url: URL,
  { requester, gone, turn }: Asking,
): Promise<void> {
  const { after, run } = parse(contract.events.query, Object.fromEntries(url.searchParams), "the query");
  const scope = sights.scopeOf(requester);
  const view = {
    turn,
    ...(scope === null ? {} : { scope }),
    ...(run === undefined ? {} : { runId: await sights.sought(supervisor, requester, run) }),
  };
  response.writeHead(200, { "content-type": "application/x-ndjson", "cache-control": "no-store" });
  response.flushHeaders();
  for await (const page of events.follow(after, view, gone)) {
    if (!(await sights.acts(requester))) break;
    for (const event of page)
      if (!response.write(`${JSON.stringify(event)}\n`))
        await once(response, "drain", { signal: gone }).catch(() => undefined);
  }
  response.end();
}
