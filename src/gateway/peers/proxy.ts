import { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Requester } from "../../sessions/requester.js";
import { onBehalfOfHeader, type Peer } from "./peer.js";

/** Hop-by-hop headers, and the token, which peers must not see. */
const DROPPED_HEADERS = new Set([
  "authorization",
  "cookie",
  "host",
  "origin",
  "connection",
  "expect",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "upgrade",
]);

function forwardableHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !DROPPED_HEADERS.has(name) && !name.startsWith("holdfast-")),
  );
}

/** Forwards a request to the peer, and streams body and response with back pressure. */
export async function proxyRequest(
  peer: Peer,
  requester: Requester,
  request: IncomingMessage,
  response: ServerResponse,
  disconnected: AbortSignal,
): Promise<void> {
  const headers = { ...forwardableHeaders(request.headers), ...onBehalfOfHeader(requester) };
  const isBackpressured = (): boolean => response.writableNeedDrain;
  const outgoing = peer.request(request.method ?? "", request.url ?? "/", headers, isBackpressured);
  const abort = (): void => void outgoing.destroy();
  disconnected.addEventListener("abort", abort, { once: true });
  if (disconnected.aborted) abort();
  let connected = false;
  outgoing.once("socket", (socket) => socket.once("secureConnect", () => (connected = true)));
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once("response", resolve);
      outgoing.on("error", reject);
      request.pipe(outgoing);
    });
    response.writeHead(answer.statusCode ?? 502, forwardableHeaders(answer.headers));
    await pipeline(answer, response);
  } catch (cause) {
    throw peer.unreachableError(describeFailure(cause), {
      cause,
      perhapsDone: connected && request.method !== "GET",
    });
  } finally {
    disconnected.removeEventListener("abort", abort);
    request.unpipe(outgoing);
    outgoing.destroy();
  }
}

/** Forwards an upgraded connection. Resolves when bytes pass in both directions. */
export async function proxyUpgrade(
  peer: Peer,
  requester: Requester,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const upgrade = { connection: "Upgrade", upgrade: "websocket" };
  const headers = { ...forwardableHeaders(request.headers), ...upgrade, ...onBehalfOfHeader(requester) };
  const outgoing = peer.request("GET", request.url ?? "/", headers, () => socket.writableNeedDrain);
  const abort = (): void => void outgoing.destroy();
  socket.once("close", abort);
  const { answer, there: upstream } = await new Promise<{ answer: IncomingMessage; there: Duplex | null }>(
    (resolve, reject) => {
      outgoing.once("upgrade", (response, upgraded, first) => {
        upgraded.unshift(first);
        resolve({ answer: response, there: upgraded });
      });
      outgoing.once("response", (response) => resolve({ answer: response, there: null }));
      outgoing.on("error", reject);
      outgoing.end();
    },
  ).catch((cause: unknown) => {
    throw peer.unreachableError(describeFailure(cause), { cause });
  });
  if (upstream === null) {
    socket.write(responseHead(answer, ["content-type", "application/json", "connection", "close"]));
    await pipeline(answer, socket).catch(() => undefined);
    return;
  }
  socket.write(responseHead(answer, answer.rawHeaders));
  upstream.write(head);
  // Data that has arrived is still written; then the end of one side closes the other.
  upstream.on("error", () => undefined).once("close", () => socket.end(() => socket.destroy()));
  socket.once("close", () => upstream.destroy());
  socket.pipe(upstream).pipe(socket);
}

function responseHead({ statusCode = 502 }: IncomingMessage, headers: readonly string[]): string {
  const lines = [`HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode] ?? ""}`];
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}

/** Replaces OpenSSL's message of a failed handshake by a clear one. */
function describeFailure(cause: unknown): string {
  const { code = "", message } = cause as NodeJS.ErrnoException;
  return code === "EPROTO" || code.startsWith("ERR_SSL")
    ? "it does not have the key that the store says it has"
    : message;
}
