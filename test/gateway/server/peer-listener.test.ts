import { once } from "node:events";
import { connect as connectPlainly, type Socket } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { defaults } from "../../../src/defaults.js";
import { derivePeerKey } from "../../../src/gateway/peers/peer.js";
import { listenForPeers, type PeerListener } from "../../../src/gateway/server/peer-listener.js";
import { waitFor } from "../../support/wait-for.js";

const [HERE, THERE] = ["127.0.0.1", "127.0.0.2"];

async function listening(handshakeMs?: number): Promise<PeerListener> {
  const peers = await listenForPeers(
    "in_there",
    { host: HERE, port: 0 },
    30_000,
    (_, response) => response.end(),
    handshakeMs,
  );
  onTestFinished(() => peers[Symbol.asyncDispose]());
  return peers;
}

/** Says nothing. */
function stranger({ bound }: PeerListener, localAddress: string): Socket {
  const socket = connectPlainly({ ...bound, localAddress }).on("error", () => {});
  onTestFinished(() => void socket.destroy());
  return socket;
}

async function peer({ bound, key }: PeerListener, localAddress: string): Promise<TLSSocket> {
  const psk = derivePeerKey(key, "in_here", "in_there");
  const socket = connect({
    ...{ ...bound, localAddress, ciphers: "PSK", minVersion: "TLSv1.3" },
    pskCallback: () => ({ psk, identity: "in_here" }),
    checkServerIdentity: () => undefined,
  });
  onTestFinished(() => void socket.destroy());
  await once(socket, "secureConnect");
  return socket;
}

const IDLE = defaults.peerStrangers + 150;

test("hundreds of idle connections keep no peer out, not even one of the same address", async () => {
  const peers = await listening();
  const idle = Array.from({ length: IDLE }, () => stranger(peers, HERE));
  await waitFor("the oldest are closed", () => idle.filter(({ closed }) => closed).length >= 150, 15_000);
  const open = await peer(peers, HERE);
  await peer(peers, THERE);
  idle.push(...Array.from({ length: IDLE }, () => stranger(peers, HERE)));
  const closed = (): number => idle.filter((each) => each.closed).length;
  await waitFor("only as many as allowed are left", () => closed() >= idle.length - defaults.peerStrangers);
  // A connection that completed its handshake is not among those that are closed.
  const answered = once(open, "data");
  open.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
  expect(String((await answered)[0])).toMatch(/^HTTP\/1\.1 200/);
});

test("an address with many idle connections closes no connection of another address", async () => {
  const peers = await listening();
  const other = stranger(peers, THERE);
  await once(other, "connect");
  const idle = Array.from({ length: IDLE }, () => stranger(peers, HERE));
  await waitFor("the oldest are closed", () => idle.filter(({ closed }) => closed).length >= 150, 15_000);
  expect(other.closed).toBe(false);
});

test("a connection that sends its handshake byte by byte is closed at the deadline", async () => {
  const peers = await listening(300);
  const slow = [stranger(peers, HERE), stranger(peers, THERE)];
  const drip = setInterval(() => slow[1]?.write("\x16"), 50);
  onTestFinished(() => clearInterval(drip));
  await waitFor("both are closed", () => slow.every(({ closed }) => closed), 15_000);
});

test("connections after a handshake are not counted", async () => {
  const peers = await listening();
  for (let at = 0; at <= defaults.peerStrangers; at++) await peer(peers, HERE);
});
