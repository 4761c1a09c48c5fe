import { writeSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { isatty } from "node:tty";
import { WebSocket } from "ws";
import { type ErrorResponse, GatewayError } from "../../api/error-response.js";
import { AuthenticatedHttpAgent, sendAuthenticated } from "../../api/authenticated-http-agent.js";
import { GatewayUnreachable, HoldfastError } from "../../errors.js";
import { gatewaySocketPath } from "../../home/state-directory.js";
import type { GatewayConnection } from "./connect.js";

/** Opens a live connection to a run. Errors before it is open go to `failed`. */
export function openAttachSocket(
  { home, token }: Pick<GatewayConnection, "home" | "token">,
  runId: string,
  query: Readonly<Record<string, string>>,
  failed: (error: Error) => void,
): WebSocket {
  const search = new URLSearchParams(query).toString();
  const path = `/v1/runs/${runId}/attach${search === "" ? "" : `?${search}`}`;
  const address = { socketPath: gatewaySocketPath(home), token };
  // The agent opens the connection; the host only completes the URL.
  const socket = new WebSocket(`ws://gateway${path}`, {
    agent: new AuthenticatedHttpAgent(address),
    finishRequest: (request) => sendAuthenticated(request),
    perMessageDeflate: false,
  });
  socket.on("unexpected-response", (_request, response) => {
    refusalError(runId, response).then(failed, failed);
  });
  socket.on("error", (cause) =>
    failed(
      cause instanceof HoldfastError
        ? cause
        : new GatewayUnreachable(`cannot attach to ${runId}: ${cause.message}`, { cause }),
    ),
  );
  return socket;
}

/** A gateway that is stopping may refuse without an error of the API: it counts as unreachable. */
async function refusalError(runId: string, response: IncomingMessage): Promise<Error> {
  const { statusCode = 0 } = response;
  const error = await text(response)
    .then((body) => (JSON.parse(body) as ErrorResponse).error)
    .catch(() => undefined);
  if (error !== undefined && statusCode !== 503) return new GatewayError(error);
  return new GatewayUnreachable(
    `cannot attach to ${runId}: ${error?.message ?? `the gateway answered ${statusCode}`}`,
  );
}

/** The query of a connection that has a terminal with a bell. */
export function bellQuery(): Readonly<Record<string, string>> {
  return isatty(2) ? { bell: "1" } : {};
}

export function ringBell(): void {
  try {
    writeSync(2, "\u0007");
  } catch {
    // stderr is closed.
  }
}
