import type { IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { WebSocket } from "ws";
import { GatewayUnreachable, HoldfastError } from "../../errors.js";
import { ProvenAgent, sendProven } from "../../gateway/proven-connection.js";
import { GatewayError, type ErrorAnswer } from "../../gateway/server/error-answer.js";
import { gatewaySocket } from "../../gateway/server/listen.js";
import type { Connection } from "./connect.js";

/** A live connection to a run. What goes wrong before it is open goes to `failed`. */
export function openChannel(
  { home, token }: Pick<Connection, "home" | "token">,
  runId: string,
  query: Readonly<Record<string, string>>,
  failed: (error: Error) => void,
): WebSocket {
  const search = new URLSearchParams(query).toString();
  const path = `/v1/runs/${runId}/attach${search === "" ? "" : `?${search}`}`;
  const address = { socketPath: gatewaySocket(home), token };
  const channel = new WebSocket(`ws+unix://${address.socketPath}:${path}`, {
    agent: new ProvenAgent(address),
    finishRequest: (request) => sendProven(request),
    perMessageDeflate: false,
  });
  channel.on("unexpected-response", (_request, response) => {
    refusal(runId, response).then(failed, failed);
  });
  channel.on("error", (cause) =>
    failed(
      cause instanceof HoldfastError
        ? cause
        : new GatewayUnreachable(`cannot attach to ${runId}: ${cause.message}`, { cause }),
    ),
  );
  return channel;
}

/** One that is stopping may refuse without a word of ours: then there is none, as far as we are concerned. */
async function refusal(runId: string, response: IncomingMessage): Promise<Error> {
  const { statusCode = 0 } = response;
  const error = await text(response)
    .then((said) => (JSON.parse(said) as ErrorAnswer).error)
    .catch(() => undefined);
  if (error !== undefined && statusCode !== 503) return new GatewayError(error);
  return new GatewayUnreachable(
    `cannot attach to ${runId}: ${error?.message ?? `the gateway answered ${statusCode}`}`,
  );
}
