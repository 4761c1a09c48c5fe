import { subscribe } from "node:diagnostics_channel";
import type { IncomingMessage, ServerResponse } from "node:http";

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

const open = new Map<ServerResponse, { readonly request: IncomingMessage; readonly since: number }>();

let recording = false;

/** Starts to record the requests that HTTP servers of this process have not answered. Called once per process. */
export function recordOpenRequests(): void {
  if (recording) return;
  recording = true;
  subscribe("http.server.request.start", (message) => {
    const { request, response } = message as Exchange;
    open.set(response, { request, since: performance.now() });
    response.once("close", () => open.delete(response));
  });
}

/** One line per request without a complete answer, for the message of a test that waited too long. */
export function describeOpenRequests(): string {
  const lines = [...open].map(([response, { request, since }]) => {
    const { method = "", url = "", headers, complete } = request;
    const rpc = [headers["mcp-method"], headers["mcp-name"]].filter((each) => each !== undefined).join(" ");
    const answer = response.headersSent ? "answer begun" : "no answer";
    return `${method} ${url} ${rpc} for ${Math.round(performance.now() - since)} ms, ${complete ? "received" : "not received completely"}, ${answer}`;
  });
  return lines.length === 0 ? "no request is open in the gateway" : `open requests:\n${lines.join("\n")}`;
}
