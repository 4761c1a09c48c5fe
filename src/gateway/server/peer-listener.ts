import type { RequestListener, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { Socket } from "node:net";
import { defaults } from "../../defaults.js";
import type { PeerAddress } from "../../model/gateway.js";
import { derivePeerKey, newPeerKey, peersBySocket } from "../peers/peer.js";
import { closeServer, type Listener, serverLimits } from "./http-server.js";
import { listenOnPort } from "./loopback-listener.js";

export interface PeerListener extends Listener {
  /** With the actual port. */
  readonly bound: PeerAddress;
  readonly key: string;
}

/**
 * Listens for peers of the same store. In the TLS handshake, both sides prove that they know this gateway's key from the
 * store (a pre-shared key instead of certificates).
 */
export async function listenForPeers(
  instanceId: string,
  address: PeerAddress,
  requestMs: number,
  router: RequestListener,
  handshakeMs: number = defaults.peerConnectMs,
): Promise<PeerListener> {
  const key = newPeerKey();
  const server = createServer(
    {
      ...serverLimits(requestMs),
      minVersion: "TLSv1.3",
      ciphers: "PSK",
      handshakeTimeout: handshakeMs,
      pskCallback: (socket, caller) => {
        peersBySocket.set(socket, caller);
        return derivePeerKey(key, caller, instanceId);
      },
    },
    (request, response) => {
      sendProcessing(response);
      router(request, response);
    },
  );
  server.maxRequestsPerSocket = 0;
  limitConnections(server);
  const bound = { host: address.host, port: await listenOnPort(server, address) };
  return { server, bound, key, [Symbol.asyncDispose]: () => closeServer(server) };
}

/**
 * Limits connections without a completed handshake to `peerStrangers`. Beyond that, the address with
 * the most such connections loses its oldest one, so idle connections never keep a peer out, and one address cannot
 * displace the connections of another.
 * Connections of peers are limited separately.
 */
function limitConnections(server: Server): void {
  const pending = new Map<string, Map<Socket, () => void>>();
  let pendingCount = 0;
  let peers = 0;
  const byRemote = new Map<string, () => void>();
  const remote = ({ remoteAddress = "", remotePort = 0 }: Socket): string => `${remoteAddress} ${remotePort}`;
  server.on("connection", (socket: Socket) => {
    const { remoteAddress = "" } = socket;
    const key = remote(socket);
    const ofAddress = pending.get(remoteAddress) ?? new Map<Socket, () => void>();
    pending.set(remoteAddress, ofAddress);
    pendingCount += 1;
    const settle = (): void => {
      if (!ofAddress.delete(socket)) return;
      pendingCount -= 1;
      if (ofAddress.size === 0) pending.delete(remoteAddress);
      if (byRemote.get(key) === settle) byRemote.delete(key);
    };
    ofAddress.set(socket, settle);
    byRemote.set(key, settle);
    socket.once("close", settle);
    if (pendingCount <= defaults.peerStrangers) return;
    const [most] = [...pending.values()].toSorted((one, other) => other.size - one.size);
    const [[oldest, forget] = []] = most ?? [];
    forget?.();
    oldest?.destroy();
  });
  server.on("secureConnection", (socket) => {
    byRemote.get(remote(socket))?.();
    peers += 1;
    socket.once("close", () => (peers -= 1));
    if (peers > defaults.connections) socket.destroy();
  });
}

/** Sends `102 Processing` during a long request, so that the peer can tell it from a dead gateway. */
function sendProcessing(response: ServerResponse): void {
  const timer = setInterval(() => {
    if (!response.headersSent && !response.destroyed) response.writeProcessing();
  }, defaults.peerLifeMs);
  response.once("close", () => clearInterval(timer));
}
