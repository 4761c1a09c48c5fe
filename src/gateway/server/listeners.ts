import type { IncomingMessage, RequestListener } from "node:http";
import type { Duplex } from "node:stream";
import type { Verb } from "../../api/contract.js";
import { advertisedAddress, parseLoopback, parsePeerAddress } from "../../config/network-addresses.js";
import type { Config } from "../../config/schema.js";
import type { PeerAddress } from "../../model/gateway.js";
import type { RunRecord } from "../../model/run.js";
import type { Authorizer } from "../../sessions/authorizer.js";
import type { Requester } from "../../sessions/requester.js";
import type { Sessions } from "../../sessions/sessions.js";
import type { Store } from "../../store/store.js";
import type { Supervisor } from "../../supervisor/api.js";
import {
  authenticateRequest,
  authenticateToken,
  findTokenHash,
  type FindTokenHash,
} from "../auth/authentication.js";
import type { AcpSessionLocator, RunLocator } from "../peers/run-and-session-locators.js";
import { parseOnBehalfOf, type Peer, type PeerDirectory } from "../peers/peer.js";
import { ConnectionLimiter } from "./request-limits.js";
import { listenOnSocket } from "./socket-listener.js";
import type { Listener } from "./http-server.js";
import { type AllowedHosts, listenOnLoopback } from "./loopback-listener.js";
import { listenForPeers } from "./peer-listener.js";

/** How a listener authenticates requests and forwards them to peers. */
export interface ListenerPolicy {
  /** Accepted values of the Host header. Null: any, on a local socket. */
  readonly allowedHosts: AllowedHosts | null;
  /** Null: the listener limits its connections in another way. */
  readonly connectionLimiter: ConnectionLimiter | null;
  /** Rejects with Unauthorized. */
  readonly authenticate: (request: IncomingMessage) => Promise<Requester>;
  /** Finds the token that a client names before it proves that it knows it. Null: this listener uses no tokens. */
  readonly findTokenHash: FindTokenHash | null;
  /** Headers of a refused WebSocket. */
  readonly refusalHeaders: Readonly<Record<string, string>>;
  /** Only peers connect; they may request only what concerns runs and ACP sessions. */
  readonly peersOnly: boolean;
  /** The peer that owns a visible run. Null: this gateway handles the request. Rejects if a peer's request would be forwarded again. */
  readonly locateRun: (requester: Requester, runId: string) => Promise<Peer | null>;
  /** The same for an ACP session or a permission request of its agent. */
  readonly locateAcpSession: (requester: Requester, verb: Verb, id: string) => Promise<Peer | null>;
}

interface ListenerPolicyDeps {
  readonly store: Store;
  readonly supervisor: Supervisor;
  readonly authorizer: Authorizer;
  readonly sessions: Sessions;
  readonly operator: string;
  readonly runLocator: RunLocator;
  readonly acpSessionLocator: AcpSessionLocator;
  readonly peerDirectory: PeerDirectory;
}

/** The policies of the listeners for clients with tokens, which share one connection limiter, and of the listener for peers. */
export function createListenerPolicies({
  store,
  supervisor,
  authorizer,
  sessions,
  operator,
  runLocator,
  acpSessionLocator,
  peerDirectory,
}: ListenerPolicyDeps): {
  readonly tokenPolicy: (allowedHosts: AllowedHosts | null) => ListenerPolicy;
  readonly peerPolicy: ListenerPolicy;
} {
  /** Null: this gateway owns the run, or the requester may not see it, which this gateway answers. */
  const findRemoteRun = async (requester: Requester, runId: string): Promise<RunRecord | null> => {
    if (!store.shared || supervisor.run(runId) !== null) return null;
    const record = await supervisor.getRun(runId);
    return record !== null && (await authorizer.canSeeRunsOf(requester)(record.sessionId)) ? record : null;
  };
  const connectionLimiter = new ConnectionLimiter();
  return {
    tokenPolicy: (allowedHosts) => ({
      allowedHosts,
      connectionLimiter,
      authenticate: (request) =>
        authenticateRequest((token) => authenticateToken(sessions, operator, token), request),
      findTokenHash: (tokenId) => findTokenHash(sessions, operator, tokenId),
      refusalHeaders: {},
      peersOnly: false,
      locateRun: async (requester, runId) => runLocator.peerFor(await findRemoteRun(requester, runId)),
      locateAcpSession: (requester, verb, id) => acpSessionLocator.peerFor(requester, verb, id),
    }),
    peerPolicy: {
      allowedHosts: null,
      connectionLimiter: null,
      authenticate: (request) => parseOnBehalfOf(store, peerDirectory, sessions, request),
      findTokenHash: null,
      refusalHeaders: {},
      peersOnly: true,
      locateRun: async (requester, runId) => runLocator.assertLocal(await findRemoteRun(requester, runId)),
      locateAcpSession: (requester, verb, id) => acpSessionLocator.assertLocal(requester, verb, id),
    },
  };
}

interface ListenersDeps {
  readonly home: string;
  readonly instanceId: string;
  readonly config: Pick<Config, "gateway" | "peers">;
  /** The store is shared with other gateways. */
  readonly shared: boolean;
  readonly requestMs: number;
  readonly router: (policy: ListenerPolicy) => RequestListener;
  readonly onUpgrade: (
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    policy: ListenerPolicy,
  ) => void;
  readonly tokenPolicy: (allowedHosts: AllowedHosts | null) => ListenerPolicy;
  readonly peerPolicy: ListenerPolicy;
  readonly onProblem: (message: string, cause: unknown) => void;
}

/** The address and key by which peers reach this gateway. */
interface PeerEndpoint {
  readonly address: PeerAddress;
  readonly peerKey: string;
}

/** All listeners of a gateway. */
export interface Listeners extends AsyncDisposable {
  /** The loopback address. Null: none. */
  readonly listen: string | null;
  /** Null: peers cannot reach this gateway. */
  readonly peerEndpoint: PeerEndpoint | null;
}

/** Opens all listeners. The gateway needs its socket; a TCP port that is not available is reported, and the gateway runs without it. */
export async function openListeners(deps: ListenersDeps): Promise<Listeners> {
  const { home, instanceId, config, shared, requestMs, router, tokenPolicy, peerPolicy, onProblem } = deps;
  const open = <Kind extends Listener>(listening: Kind, policy: ListenerPolicy): Kind => {
    policy.connectionLimiter?.watch(listening.server);
    listening.server.on("upgrade", (request, socket, head) => deps.onUpgrade(request, socket, head, policy));
    return listening;
  };
  const orNone = (message: string) => (cause: unknown) => {
    onProblem(message, cause);
    return null;
  };
  const local = open(
    await listenOnSocket(home, requestMs, router(tokenPolicy(null)), onProblem),
    tokenPolicy(null),
  );
  const loopback = parseLoopback(config.gateway.listen ?? "");
  const tcp =
    loopback === null
      ? null
      : await listenOnLoopback(loopback, requestMs, (allowedHosts) => router(tokenPolicy(allowedHosts))).then(
          (listening) => open(listening, tokenPolicy(listening.allowedHosts)),
          orNone("the gateway answers on its socket only"),
        );
  const wanted = shared ? parsePeerAddress(config.peers.listen ?? "") : null;
  const peers =
    wanted === null
      ? null
      : await listenForPeers(instanceId, wanted, requestMs, router(peerPolicy)).then(
          (listening) => open(listening, peerPolicy),
          orNone("other gateways cannot reach this one"),
        );
  const advertise = parsePeerAddress(config.peers.advertise ?? "");
  return {
    listen: tcp?.address ?? null,
    peerEndpoint:
      peers === null ? null : { address: advertisedAddress(peers.bound, advertise), peerKey: peers.key },
    async [Symbol.asyncDispose]() {
      for (const each of [local, tcp, peers]) await each?.[Symbol.asyncDispose]();
    },
  };
}
