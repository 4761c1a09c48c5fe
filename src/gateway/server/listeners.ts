import type { RequestListener } from "node:http";
import type { PeerAddress } from "../../model/gateway.js";
import type { Config } from "../../config/schema.js";
import { advertisedAddress, parsePeerAddress, parseLoopback } from "../../config/addresses.js";
import { listenForPeers } from "./peer-listener.js";
import type { Attachments } from "./attachments.js";
import type { ListenerPolicy } from "./listener-policy.js";
import { listenOnSocket, type Listener } from "./local-listener.js";
import { listenOnLoopback, type AllowedHosts } from "./loopback-listener.js";

export interface ListenersDeps {
  readonly home: string;
  readonly instanceId: string;
  readonly config: Pick<Config, "gateway" | "peers">;
  /** The store is shared with other gateways. */
  readonly shared: boolean;
  readonly requestMs: number;
  readonly router: (policy: ListenerPolicy) => RequestListener;
  readonly attachments: Attachments;
  readonly tokenPolicy: (allowedHosts: AllowedHosts | null) => ListenerPolicy;
  readonly peerPolicy: ListenerPolicy;
  readonly onProblem: (message: string, cause: unknown) => void;
}

/** The address and key by which peers reach this gateway. */
export interface PeerEndpoint {
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
    listening.server.on("upgrade", (request, socket, head) =>
      deps.attachments.upgrade(request, socket, head, policy),
    );
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
