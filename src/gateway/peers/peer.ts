import { hkdfSync, randomBytes } from "node:crypto";
import type { ClientRequest, IncomingHttpHeaders } from "node:http";
import { request, type RequestOptions } from "node:https";
import type { Socket } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { defaults } from "../../defaults.js";
import type { HoldfastError, PeerFailure } from "../../errors.js";
import type { GatewayRecord } from "../../model/gateway.js";

const KEY_BYTES = 32;

/** New in each incarnation and only in the store: a process that can read it is a gateway of the store. */
export function newPeerKey(): string {
  return randomBytes(KEY_BYTES).toString("base64url");
}

/** The pre-shared key of one pair of gateways. */
export function derivePeerKey(peerKey: string, caller: string, target: string): Buffer {
  const info = `holdfast peer\0${caller}\0${target}`;
  return Buffer.from(hkdfSync("sha256", Buffer.from(peerKey, "base64url"), "", info, KEY_BYTES));
}

/** Makes the error of a failed request. */
export type PeerErrorFactory = (why: string, how: PeerFailure) => HoldfastError;

/** A peer that has the requested run or session, and how to connect to it. */
export class Peer {
  readonly #instanceId: string;
  readonly #gateway: GatewayRecord;
  readonly #errorFactory: PeerErrorFactory;
  readonly #silentMs: number;

  constructor(
    caller: string,
    gateway: GatewayRecord,
    errorFactory: PeerErrorFactory,
    silentMs: number = defaults.peerSilentMs,
  ) {
    this.#instanceId = caller;
    this.#gateway = gateway;
    this.#errorFactory = errorFactory;
    this.#silentMs = silentMs;
  }

  unreachableError(why: string, how: PeerFailure = {}): HoldfastError {
    return this.#errorFactory(why, how);
  }

  /**
   * Each request has its own connection: a successful handshake proves that the gateway is alive and has the key of the
   * store. The request fails if the handshake takes too long, or if no data arrives for too long while it is not
   * `heldBack` here.
   */
  request(
    method: string,
    path: string,
    headers: IncomingHttpHeaders,
    isBackpressured: () => boolean,
  ): ClientRequest {
    const { address, peerKey, instanceId, stoppedAt } = this.#gateway;
    if (stoppedAt !== null) throw this.unreachableError("it has been stopped", { missing: "gateway" });
    if (address === null || peerKey === null)
      throw this.unreachableError("it does not listen for others ([peers] listen in its config)", {
        missing: "listener",
      });
    const options: RequestOptions & Pick<ConnectionOptions, "pskCallback"> = {
      ...address,
      method,
      path,
      headers,
      agent: false,
      minVersion: "TLSv1.3",
      ciphers: "PSK",
      // A server with a certificate does not have the key, even if NODE_TLS_REJECT_UNAUTHORIZED accepts the certificate.
      rejectUnauthorized: true,
      checkServerIdentity: () => new Error("it has not proven that it reads the same store"),
      pskCallback: () => ({
        psk: derivePeerKey(peerKey, this.#instanceId, instanceId),
        identity: this.#instanceId,
      }),
    };
    const outgoing = request(options);
    const timeout = setTimeout(
      () => outgoing.destroy(new Error(`no answer within ${defaults.peerConnectMs} ms`)),
      defaults.peerConnectMs,
    );
    outgoing.once("close", () => clearTimeout(timeout));
    outgoing.once("socket", (socket) => {
      socket.once("secureConnect", () => {
        clearTimeout(timeout);
        destroyWhenSilent(socket, this.#silentMs, isBackpressured);
      });
    });
    return outgoing;
  }
}

/** Destroys a connection without data for too long. Time in which this side does not read is not counted. */
function destroyWhenSilent(socket: Socket, silentMs: number, isBackpressured: () => boolean): void {
  let lastBytesRead = socket.bytesRead;
  const look = (): void => {
    if (socket.bytesRead === lastBytesRead && !isBackpressured())
      socket.destroy(new Error(`nothing was heard of it for ${silentMs} ms`));
    lastBytesRead = socket.bytesRead;
  };
  // Reads what has arrived first: this process may have been stopped for that long.
  const timer = setInterval(() => setImmediate(look), silentMs);
  socket.once("close", () => clearInterval(timer));
}
