import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { Unauthorized } from "../../errors.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { GatewayStore } from "../../store/gateways/store.js";
import type { Requester } from "../../sessions/requester.js";
import type { PeerDirectory } from "./peer-directory.js";

/** Only read on connections of authenticated peers. */
const HEADER = "holdfast-requester";

/** Names the requester of a forwarded request. */
export function onBehalfOfHeader(requester: Requester): IncomingHttpHeaders {
  return { [HEADER]: requester.kind === "operator" ? "operator" : `session ${requester.session.id}` };
}

/** The requester of a peer's request. Its session is read again, so that this gateway decides what it may see. */
export async function parseOnBehalfOf(
  store: Pick<GatewayStore, "getGateway">,
  peerDirectory: Pick<PeerDirectory, "get">,
  sessions: Pick<Sessions, "get">,
  { socket, headers }: IncomingMessage,
): Promise<Requester> {
  const caller = peerOf(socket);
  // The handshake has proven the peer's key. If the store cannot confirm the peer now, the last known peers can.
  const known = caller === null ? null : (peerDirectory.get(caller) ?? (await store.getGateway(caller)));
  if (known === null) throw new Unauthorized("only gateways of the same store may connect here");
  const said = headers[HEADER];
  if (said === "operator") return { kind: "operator", actor: "operator" };
  const [, sessionId] = /^session (.{1,200})$/.exec(typeof said === "string" ? said : "") ?? [];
  const session = sessionId === undefined ? null : await sessions.get(sessionId);
  if (session === null || session.closedAt !== null)
    throw new Unauthorized("the request of the gateway does not name an open session or the operator");
  return { kind: "session", actor: `session:${session.key}`, session };
}

/** The authenticated peer of each connection. */
export const peersBySocket = new WeakMap<object, string>();

export function peerOf(socket: object): string | null {
  return peersBySocket.get(socket) ?? null;
}
