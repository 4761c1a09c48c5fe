import { STATUS_CODES, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Requester } from "../server/requester.js";
import type { Peer } from "./peer.js";
import { stating } from "./stated.js";

/** Of one connection, or the caller's alone: the token is no peer's business. */
const KEPT_BACK = new Set([
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

function passable(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !KEPT_BACK.has(name) && !name.startsWith("holdfast-")),
  );
}

/** Have a request answered where its run is: body and answer pass as they come, no faster than they are taken. */
export async function passRequest(
  peer: Peer,
  requester: Requester,
  request: IncomingMessage,
  response: ServerResponse,
  gone: AbortSignal,
): Promise<void> {
  const headers = { ...passable(request.headers), ...stating(requester) };
  const heldBack = (): boolean => response.writableNeedDrain;
  const asking = peer.ask(request.method ?? "", request.url ?? "/", headers, heldBack);
  const leave = (): void => void asking.destroy();
  gone.addEventListener("abort", leave, { once: true });
  if (gone.aborted) leave();
  let heard = false;
  asking.once("socket", (socket) => socket.once("secureConnect", () => (heard = true)));
  try {
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      asking.once("response", resolve);
      asking.on("error", reject);
      request.pipe(asking);
    });
    response.writeHead(answer.statusCode ?? 502, passable(answer.headers));
    await pipeline(answer, response);
  } catch (cause) {
    throw peer.unreachable(whyOf(cause), { cause, perhapsDone: heard && request.method !== "GET" });
  } finally {
    gone.removeEventListener("abort", leave);
    request.unpipe(asking);
    asking.destroy();
  }
}

/** The same for a connection that stays: from the handshake on, bytes pass both ways. Resolves when they do. */
export async function passUpgrade(
  peer: Peer,
  requester: Requester,
  request: IncomingMessage,
  socket: Duplex,
  head: Buffer,
): Promise<void> {
  const upgrade = { connection: "Upgrade", upgrade: "websocket" };
  const headers = { ...passable(request.headers), ...upgrade, ...stating(requester) };
  const asking = peer.ask("GET", request.url ?? "/", headers, () => socket.writableNeedDrain);
  const leave = (): void => void asking.destroy();
  socket.once("close", leave);
  const { answer, there } = await new Promise<{ answer: IncomingMessage; there: Duplex | null }>(
    (resolve, reject) => {
      asking.once("upgrade", (response, upgraded, first) => {
        upgraded.unshift(first);
        resolve({ answer: response, there: upgraded });
      });
      asking.once("response", (response) => resolve({ answer: response, there: null }));
      asking.on("error", reject);
      asking.end();
    },
  ).catch((cause: unknown) => {
    throw peer.unreachable(whyOf(cause), { cause });
  });
  if (there === null) {
    socket.write(headOf(answer, ["content-type", "application/json", "connection", "close"]));
    await pipeline(answer, socket).catch(() => undefined);
    return;
  }
  socket.write(headOf(answer, answer.rawHeaders));
  there.write(head);
  // What has been heard is still said; then either end takes the other with it.
  there.on("error", () => undefined).once("close", () => socket.end(() => socket.destroy()));
  socket.once("close", () => there.destroy());
  socket.pipe(there).pipe(socket);
}

function headOf({ statusCode = 502 }: IncomingMessage, headers: readonly string[]): string {
  const lines = [`HTTP/1.1 ${statusCode} ${STATUS_CODES[statusCode] ?? ""}`];
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}

/** A failed handshake is a riddle in OpenSSL's words. */
function whyOf(cause: unknown): string {
  const { code = "", message } = cause as NodeJS.ErrnoException;
  return code === "EPROTO" || code.startsWith("ERR_SSL")
    ? "it does not have the key that the store says it has"
    : message;
}
