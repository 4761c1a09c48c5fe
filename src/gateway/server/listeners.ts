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
  /** Whether there are other gateways that could come. */
  readonly shared: boolean;
  readonly requestMs: number;
  readonly router: (policy: ListenerPolicy) => RequestListener;
  readonly attachments: Attachments;
  readonly tokenPolicy: (allowedHosts: AllowedHosts | null) => ListenerPolicy;
  readonly peerPolicy: ListenerPolicy;
  readonly onProblem: (message: string, cause: unknown) => void;
}

/** Where other gateways reach this one, and by which key. */
export interface PeerEndpoint {
  readonly address: PeerAddress;
  readonly peerKey: string;
}

/** Everywhere a gateway listens. */
export interface Listeners extends AsyncDisposable {
  /** Its TCP address; null: none. */
  readonly listen: string | null;
  /** Null: others do not reach it. */
  readonly peerEndpoint: PeerEndpoint | null;
}

/** On its socket in any case. Its runs matter more than a port: one that cannot be had is reported, and it goes on. */
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
