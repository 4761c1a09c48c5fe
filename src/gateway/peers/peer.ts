import { hkdfSync, randomBytes } from "node:crypto";
import { rm } from "node:fs/promises";
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from "node:http";
import { request, type RequestOptions } from "node:https";
import type { Socket } from "node:net";
import { join } from "node:path";
import type { ConnectionOptions } from "node:tls";
import { defaults } from "../../defaults.js";
import { type HoldfastError, type PeerFailure, Unauthorized } from "../../errors.js";
import { readOwnFile, writeOwnFile } from "../../home/own-file.js";
import { renameFile } from "../../home/rename-file.js";
import type { GatewayRecord } from "../../model/gateway.js";
import type { Requester } from "../../sessions/requester.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { GatewayStore } from "../../store/gateways/contract.js";

/**
 * The last known addresses and keys of the other gateways of a shared store, kept in a file in the state directory, so
 * that a run of another host can be stopped while the store cannot be read.
 */
export class PeerDirectory {
  readonly #path: string;
  readonly #instanceId: string;
  #known = new Map<string, GatewayRecord>();

  constructor(home: string, instanceId: string) {
    this.#path = join(home, "peers.json");
    this.#instanceId = instanceId;
  }

  /** Loads the file of an earlier gateway. A damaged file counts as missing. */
  async load(): Promise<void> {
    try {
      const kept = JSON.parse(await readOwnFile(this.#path)) as readonly GatewayRecord[];
      this.#known = new Map(kept.map((gateway) => [gateway.instanceId, gateway]));
    } catch {
      this.#known = new Map();
    }
  }

  get(instanceId: string): GatewayRecord | null {
    return this.#known.get(instanceId) ?? null;
  }

  /** Gateways that listen for other gateways and have not stopped. */
  reachable(): readonly GatewayRecord[] {
    return [...this.#known.values()].filter(
      ({ address, peerKey, stoppedAt }) => address !== null && peerKey !== null && stoppedAt === null,
    );
  }

  /** Reads keys and writes the file only when a gateway was added, removed or restarted. */
  async refresh(store: Pick<GatewayStore, "listGateways" | "getGateway">): Promise<void> {
    const others = (await store.listGateways()).filter(({ instanceId }) => instanceId !== this.#instanceId);
    const next = new Map<string, GatewayRecord>();
    let changed = others.length !== this.#known.size;
    for (const facts of others) {
      const before = this.#known.get(facts.instanceId);
      const same =
        before !== undefined &&
        before.startedAt === facts.startedAt &&
        before.stoppedAt === facts.stoppedAt &&
        JSON.stringify(before.address) === JSON.stringify(facts.address);
      const record = same ? before : await store.getGateway(facts.instanceId);
      if (record !== null) next.set(record.instanceId, record);
      changed ||= !same;
    }
    this.#known = next;
    if (changed) await this.#write();
  }

  async #write(): Promise<void> {
    const draft = `${this.#path}.${process.pid}`;
    try {
      writeOwnFile(draft, JSON.stringify([...this.#known.values()]));
      await renameFile(draft, this.#path);
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
  }
}

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
   * `isBackpressured` here.
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
      checkServerIdentity: () => new Error("it has not proven that it uses the same store"),
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
  let wasBackpressured = false;
  const check = (): void => {
    const backpressured = isBackpressured();
    if (socket.bytesRead === lastBytesRead && !backpressured && !wasBackpressured)
      socket.destroy(new Error(`no data for ${silentMs} ms`));
    lastBytesRead = socket.bytesRead;
    // If this side did not read until just before this check, the peer has time until the next check.
    wasBackpressured = backpressured;
  };
  // Reads what has arrived first: this process may have been stopped for that long.
  const timer = setInterval(() => setImmediate(check), silentMs);
  socket.once("close", () => clearInterval(timer));
}

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
  const caller = peersBySocket.get(socket);
  // The handshake has proven the peer's key. If the store cannot confirm the peer now, the last known peers can.
  const known = caller === undefined ? null : (peerDirectory.get(caller) ?? (await store.getGateway(caller)));
  if (known === null) throw new Unauthorized("only gateways of the same store may connect here");
  const named = headers[HEADER];
  if (named === "operator") return { kind: "operator", actor: "operator" };
  const [, sessionId] = /^session (.{1,200})$/.exec(typeof named === "string" ? named : "") ?? [];
  const session = sessionId === undefined ? null : await sessions.get(sessionId);
  if (session === null || session.closedAt !== null)
    throw new Unauthorized("the request of the gateway does not name an open session or the operator");
  return { kind: "session", actor: `session:${session.key}`, session };
}

/** The authenticated peer of each connection. */
export const peersBySocket = new WeakMap<object, string>();
