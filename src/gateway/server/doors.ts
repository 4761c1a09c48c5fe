import type { RequestListener } from "node:http";
import type { PeerAddress } from "../../store/gateway-record.js";
import type { Config } from "../config.js";
import { advertised, parsePeerAddress } from "../peers/address.js";
import { listenForPeers } from "../peers/listen.js";
import type { Attachments } from "./attach.js";
import type { Entrance } from "./entrance.js";
import { listenLocally, type Listening } from "./listen.js";
import { listenOnLoopback, parseLoopback, type Served } from "./loopback.js";

export interface DoorsParts {
  readonly home: string;
  readonly instanceId: string;
  readonly config: Pick<Config, "gateway" | "peers">;
  /** Whether there are other gateways that could come. */
  readonly shared: boolean;
  readonly requestMs: number;
  readonly app: (entrance: Entrance) => RequestListener;
  readonly attachments: Attachments;
  readonly byToken: (served: Served | null) => Entrance;
  readonly forPeers: Entrance;
  readonly problem: (message: string, cause: unknown) => void;
}

/** Where other gateways reach this one, and by which key. */
export interface Peering {
  readonly address: PeerAddress;
  readonly peerKey: string;
}

/** Everywhere a gateway listens. */
export interface Doors extends AsyncDisposable {
  /** Its TCP address; null: none. */
  readonly listen: string | null;
  /** Null: others do not reach it. */
  readonly peering: Peering | null;
}

/** On its socket in any case. Its runs matter more than a port: one that cannot be had is reported, and it goes on. */
export async function openDoors(parts: DoorsParts): Promise<Doors> {
  const { home, instanceId, config, shared, requestMs, app, byToken, forPeers, problem } = parts;
  const open = <Kind extends Listening>(listening: Kind, entrance: Entrance): Kind => {
    entrance.connections?.watch(listening.server);
    listening.server.on("upgrade", (request, socket, head) =>
      parts.attachments.upgrade(request, socket, head, entrance),
    );
    return listening;
  };
  const orNone = (message: string) => (cause: unknown) => {
    problem(message, cause);
    return null;
  };
  const local = open(await listenLocally(home, requestMs, app(byToken(null)), problem), byToken(null));
  const loopback = parseLoopback(config.gateway.listen ?? "");
  const tcp =
    loopback === null
      ? null
      : await listenOnLoopback(loopback, requestMs, (served) => app(byToken(served))).then(
          (listening) => open(listening, byToken(listening.served)),
          orNone("the gateway answers on its socket only"),
        );
  const wanted = shared ? parsePeerAddress(config.peers.listen ?? "") : null;
  const peers =
    wanted === null
      ? null
      : await listenForPeers(instanceId, wanted, requestMs, app(forPeers)).then(
          (listening) => open(listening, forPeers),
          orNone("other gateways cannot reach this one"),
        );
  const advertise = parsePeerAddress(config.peers.advertise ?? "");
  return {
    listen: tcp?.address ?? null,
    peering: peers === null ? null : { address: advertised(peers.bound, advertise), peerKey: peers.key },
    async [Symbol.asyncDispose]() {
      for (const each of [local, tcp, peers]) await each?.[Symbol.asyncDispose]();
    },
  };
}
