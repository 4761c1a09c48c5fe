import { mkdir, writeFile } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { type NativeHost, openNativeHost } from "../../../src/anchor/native-host.js";
import { FrameDecoder } from "../../../src/anchor/protocol/frame.js";
import {
  type AnchorMessage,
  decodeMessage,
  encodeMessage,
  type MessageFields,
} from "../../../src/anchor/protocol/message-codec.js";
import { temporaryDirectory } from "../temporary-directory.js";

/** The peer's side of one connection. */
class PeerConnection {
  readonly received: AnchorMessage[] = [];
  readonly socket: Socket;
  constructor(socket: Socket) {
    this.socket = socket;
  }
  send(...frames: Buffer[]): void {
    this.socket.write(Buffer.concat(frames));
  }
}

type PeerAnswer = (message: AnchorMessage, connection: PeerConnection) => void;

/** Listens in place of a launcher or an anchor. */
export class FakePeer implements AsyncDisposable {
  readonly connections: PeerConnection[] = [];
  readonly #server: Server;

  static async listen(path: string, answer: PeerAnswer): Promise<FakePeer> {
    const peer = new FakePeer(answer);
    await new Promise<void>((resolve) => peer.#server.listen(path, resolve));
    return peer;
  }

  private constructor(answer: PeerAnswer) {
    this.#server = createServer((socket) => {
      const connection = new PeerConnection(socket);
      const decoder = new FrameDecoder();
      this.connections.push(connection);
      socket.on("error", () => {});
      socket.on("data", (chunk) => {
        for (const frame of decoder.push(chunk)) {
          const message = decodeMessage(frame);
          if (message === null) continue;
          connection.received.push(message);
          answer(message, connection);
        }
      });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { socket } of this.connections) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

export function welcomeFrame(change: Partial<MessageFields<"welcome">> = {}): Buffer {
  return encodeMessage("welcome", {
    protocol: 1,
    epoch: 1,
    phase: 1,
    elapsedMs: null,
    kind: null,
    rootPid: 101,
    rootStart: 5000,
    rootUnique: "18446744073709551615",
    anchorPid: 100,
    anchorStart: 4999,
    anchorUnique: "0",
    tier: "subreaper+launcher+unique",
    tierNote: "no cgroup",
    cgroup: null,
    cgroupInode: null,
    outStart: 0,
    outEnd: 10,
    outAcked: 5,
    outDropped: 0,
    outClosed: false,
    outWithheld: false,
    errWithheld: false,
    errStart: 0,
    errEnd: 0,
    errAcked: 0,
    errDropped: 0,
    errClosed: true,
    caller: false,
    offset: 0,
    limit: 65536,
    closed: false,
    reason: null,
    actor: null,
    requestId: null,
    code: null,
    signal: null,
    ...change,
  });
}

export const launcherFrame = encodeMessage("launcher", {
  protocol: 1,
  anchorPid: 99,
  anchorStart: 4000,
  anchorUnique: null,
  cgroup: null,
  tierNote: null,
  warm: false,
});

export interface FakeLauncherHost {
  readonly host: NativeHost;
  readonly launcher: FakePeer;
  /** The directory of `run_a`. */
  readonly runDir: string;
  /** The anchor's side of the connection that carried START. */
  readonly owner: () => PeerConnection;
}

/** A native host whose launcher is a fake peer. By default START is answered with WELCOME. */
export async function hostWithFakeLauncher(
  onStart: PeerAnswer = (_message, connection) => connection.send(welcomeFrame()),
): Promise<FakeLauncherHost> {
  const { path: home, ...directory } = await temporaryDirectory();
  const instanceDir = join(home, "instances", "i");
  const runDir = join(instanceDir, "runs", "run_a");
  await mkdir(runDir, { recursive: true });
  const anchorSource = join(home, "fake");
  await writeFile(anchorSource, "\x7fELF, as far as it is checked\n", { mode: 0o755 });
  const launcher = await FakePeer.listen(join(instanceDir, "launcher.sock"), (message, connection) => {
    if (message.name === "hold") connection.send(launcherFrame);
    else if (message.name === "start") onStart(message, connection);
  });
  const machine = { hostId: "h", bootId: "b", pidNamespace: "n", timeNamespace: null };
  const identity = { instanceId: "i", incarnation: "inc" };
  const host = await openNativeHost({ home, ...identity, instanceDir, machine, anchorSource });
  onTestFinished(async () => {
    await host[Symbol.asyncDispose]();
    await launcher[Symbol.asyncDispose]();
    await directory[Symbol.asyncDispose]();
  });
  const owner = (): PeerConnection => {
    const found = launcher.connections.find(({ received }) => received[0]?.name === "start");
    if (found === undefined) throw new Error("no START was received");
    return found;
  };
  return { host, launcher, runDir, owner };
}
