import { hkdfSync, randomBytes } from "node:crypto";
import type { ClientRequest, IncomingHttpHeaders } from "node:http";
import { request, type RequestOptions } from "node:https";
import type { Socket } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { defaults } from "../../defaults.js";
import type { HoldfastError, PeerFailure } from "../../errors.js";
import type { GatewayRecord } from "../../model/gateway.js";

const KEY_BYTES = 32;

/** New with every incarnation, and written only to the store: who can read it there is one of ours. */
export function newPeerKey(): string {
  return randomBytes(KEY_BYTES).toString("base64url");
}

/** What `caller` and `target` prove to each other that both can read the store. Of no use between any two others. */
export function derivePeerKey(peerKey: string, caller: string, target: string): Buffer {
  const info = `holdfast peer\0${caller}\0${target}`;
  return Buffer.from(hkdfSync("sha256", Buffer.from(peerKey, "base64url"), "", info, KEY_BYTES));
}

/** What is said of what could not be asked for. */
export type PeerErrorFactory = (why: string, how: PeerFailure) => HoldfastError;

/** A gateway elsewhere that has what is asked about, and the way to ask it. */
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
   * A connection of its own: that the handshake succeeds proves the gateway alive now, and its key the one in the store.
   * The request fails when it has not been made in time, and when nothing comes over it for too long unless it is
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
      // Whoever shows a certificate does not have the key, however good the certificate, and whatever the environment
      // says about taking bad ones (NODE_TLS_REJECT_UNAUTHORIZED).
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

/** A connection over which nothing has come for too long is given up; what is not taken off it here is no silence. */
function destroyWhenSilent(socket: Socket, silentMs: number, isBackpressured: () => boolean): void {
  let lastBytesRead = socket.bytesRead;
  const look = (): void => {
    if (socket.bytesRead === lastBytesRead && !isBackpressured())
      socket.destroy(new Error(`nothing was heard of it for ${silentMs} ms`));
    lastBytesRead = socket.bytesRead;
  };
  // Not before what has come meanwhile is read: this process may have been stopped for as long.
  const timer = setInterval(() => setImmediate(look), silentMs);
  socket.once("close", () => clearInterval(timer));
}
