import { once } from "node:events";
import { connect as connectPlainly, type Socket } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { sharedKey } from "../../../src/gateway/peers/key.js";
import { listenForPeers, type PeerListening } from "../../../src/gateway/peers/listen.js";
import { until } from "../../until.js";

const [HERE, THERE] = ["127.0.0.1", "127.0.0.2"];

async function listening(): Promise<PeerListening> {
  const peers = await listenForPeers("in_there", { host: HERE, port: 0 }, 30_000, (_, response) =>
    response.end(),
  );
  onTestFinished(() => peers[Symbol.asyncDispose]());
  return peers;
}

/** Says nothing. */
function stranger({ bound }: PeerListening, localAddress: string): Socket {
  const socket = connectPlainly({ ...bound, localAddress }).on("error", () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

async function peer({ bound, key }: PeerListening, localAddress: string): Promise<TLSSocket> {
  const psk = sharedKey(key, "in_here", "in_there");
  const socket = connect({
    ...{ ...bound, localAddress, ciphers: "PSK", minVersion: "TLSv1.3" },
    pskCallback: () => ({ psk, identity: "in_here" }),
    checkServerIdentity: () => undefined,
  });
  onTestFinished(() => void socket.destroy());
  await once(socket, "secureConnect");
  return socket;
}

test("an address whose connections do not prove themselves shuts out nobody but itself, for as long as they last", async () => {
  const peers = await listening();
  peers.server.maxConnections = defaults.peerStrangers + 10;
  const strangers = Array.from({ length: defaults.peerStrangers + 20 }, () => stranger(peers, THERE));
  await until("some are turned away", () => strangers.filter(({ closed }) => closed).length === 20, 15_000);
  await peer(peers, HERE);
  await expect(peer(peers, THERE)).rejects.toThrow();
  for (const each of strangers) each.destroy();
  const admitted = (): Promise<boolean> =>
    peer(peers, THERE).then(
      () => true,
      () => false,
    );
  await until("it is let in again", admitted, 15_000);
});

test("connections that have proven themselves are not counted", async () => {
  const peers = await listening();
  for (let at = 0; at <= defaults.peerStrangers; at++) await peer(peers, HERE);
});
