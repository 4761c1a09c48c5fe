import type { ClientRequest, IncomingHttpHeaders } from "node:http";
import { request, type RequestOptions } from "node:https";
import type { Socket } from "node:net";
import type { ConnectionOptions } from "node:tls";
import { defaults } from "../../defaults.js";
import type { HoldfastError, PeerFailure } from "../../errors.js";
import type { GatewayRecord } from "../../store/gateway-record.js";
import { sharedKey } from "./key.js";

/** What is said of what could not be asked for. */
export type Complaint = (why: string, how: PeerFailure) => HoldfastError;

/** A gateway elsewhere that has what is asked about, and the way to ask it. */
export class Peer {
  readonly #caller: string;
  readonly #gateway: GatewayRecord;
  readonly #complaint: Complaint;
  readonly #silentMs: number;

  constructor(
    caller: string,
    gateway: GatewayRecord,
    complaint: Complaint,
    silentMs: number = defaults.peerSilentMs,
  ) {
    this.#caller = caller;
    this.#gateway = gateway;
    this.#complaint = complaint;
    this.#silentMs = silentMs;
  }

  unreachable(why: string, how: PeerFailure = {}): HoldfastError {
    return this.#complaint(why, how);
  }

  /**
   * A connection of its own: that the handshake succeeds proves the gateway alive now, and its key the one in the store.
   * The request fails when it has not been made in time, and when nothing comes over it for too long unless it is
   * `heldBack` here.
   */
  ask(method: string, path: string, headers: IncomingHttpHeaders, heldBack: () => boolean): ClientRequest {
    const { address, peerKey, instanceId, stoppedAt } = this.#gateway;
    if (stoppedAt !== null) throw this.unreachable("it has been stopped", { missing: "gateway" });
    if (address === null || peerKey === null)
      throw this.unreachable("it does not listen for others ([peers] listen in its config)", {
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
        psk: sharedKey(peerKey, this.#caller, instanceId),
        identity: this.#caller,
      }),
    };
    const asking = request(options);
    const late = setTimeout(
      () => asking.destroy(new Error(`no answer within ${defaults.peerConnectMs} ms`)),
      defaults.peerConnectMs,
    );
    asking.once("close", () => clearTimeout(late));
    asking.once("socket", (socket) => {
      socket.once("secureConnect", () => {
        clearTimeout(late);
        mustSpeak(socket, this.#silentMs, heldBack);
      });
    });
    return asking;
  }
}

/** A connection over which nothing has come for too long is given up; what is not taken off it here is no silence. */
function mustSpeak(socket: Socket, silentMs: number, heldBack: () => boolean): void {
  let heard = socket.bytesRead;
  const look = (): void => {
    if (socket.bytesRead === heard && !heldBack())
      socket.destroy(new Error(`nothing was heard of it for ${silentMs} ms`));
    heard = socket.bytesRead;
  };
  // Not before what has come meanwhile is read: this process may have been stopped for as long.
  const timer = setInterval(() => setImmediate(look), silentMs);
  socket.once("close", () => clearInterval(timer));
}
