import type { RequestListener, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { Socket } from "node:net";
import { defaults } from "../../defaults.js";
import { StateUnusable } from "../../errors.js";
import type { PeerAddress } from "../../store/gateway-record.js";
import { bounds, close, crowded, type Listening } from "../server/listen.js";
import { newPeerKey, sharedKey } from "./key.js";

export interface PeerListening extends Listening {
  /** With the port that was had. */
  readonly bound: PeerAddress;
  readonly key: string;
}

/** Which gateway has proven itself on a connection. */
const callers = new WeakMap<object, string>();

export function callerOf(socket: object): string | null {
  return callers.get(socket) ?? null;
}

/**
 * For other gateways of the same store. Both sides prove that they can read this gateway's key there, in the handshake:
 * there is no certificate, and nobody else gets to say a word.
 */
export async function listenForPeers(
  instanceId: string,
  { host, port }: PeerAddress,
  requestMs: number,
  app: RequestListener,
): Promise<PeerListening> {
  const key = newPeerKey();
  const server = crowded(
    createServer(
      {
        ...bounds(requestMs),
        minVersion: "TLSv1.3",
        ciphers: "PSK",
        handshakeTimeout: defaults.peerConnectMs,
        pskCallback: (socket, caller) => {
          callers.set(socket, caller);
          return sharedKey(key, caller, instanceId);
        },
      },
      (request, response) => {
        tellOfLife(response);
        app(request, response);
      },
    ),
  );
  boundStrangers(server);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) =>
      reject(new StateUnusable(host, `cannot listen on ${host}:${port}: ${cause.message}`, { cause })),
    );
    server.listen({ host, port, exclusive: true }, resolve);
  });
  const bound = server.address();
  const had = typeof bound === "object" && bound !== null ? bound.port : port;
  return { server, bound: { host, port: had }, key, [Symbol.asyncDispose]: () => close(server) };
}

/** Before it has proven itself, a connection is anybody's: no address may have all that there are. */
function boundStrangers(server: Server): void {
  const strangers = new Map<string, number>();
  const proven = new Map<string, () => void>();
  const place = ({ remoteAddress = "", remotePort = 0 }: Socket): string => `${remoteAddress} ${remotePort}`;
  server.on("connection", (socket: Socket) => {
    const { remoteAddress = "" } = socket;
    const count = strangers.get(remoteAddress) ?? 0;
    if (count >= defaults.peerStrangers) {
      socket.destroy();
      return;
    }
    strangers.set(remoteAddress, count + 1);
    const from = place(socket);
    const known = (): void => {
      if (!proven.delete(from)) return;
      const others = (strangers.get(remoteAddress) ?? 1) - 1;
      if (others > 0) strangers.set(remoteAddress, others);
      else strangers.delete(remoteAddress);
    };
    proven.set(from, known);
    socket.once("close", known);
  });
  server.on("secureConnection", (socket) => proven.get(place(socket))?.());
}

/** An answer may take its time; that it is being worked on is said meanwhile, so that silence means something. */
function tellOfLife(response: ServerResponse): void {
  const timer = setInterval(() => {
    if (!response.headersSent && !response.destroyed) response.writeProcessing();
  }, defaults.peerLifeMs);
  response.once("close", () => clearInterval(timer));
}
