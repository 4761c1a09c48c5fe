import { createServer, type Server, type Socket } from "node:net";
import { FrameDecoder } from "../../../src/anchor/protocol/frame.js";
import {
  type AnchorMessage,
  decodeMessage,
  encodeMessage,
  type MessageFields,
} from "../../../src/anchor/protocol/message-codec.js";

/** The peer's side of one connection. */
export class PeerConnection {
  readonly received: AnchorMessage[] = [];
  readonly socket: Socket;
  constructor(socket: Socket) {
    this.socket = socket;
  }
  send(...frames: Buffer[]): void {
    this.socket.write(Buffer.concat(frames));
  }
}

/** Listens in place of a launcher or an anchor, and answers as the test says. */
export class FakePeer implements AsyncDisposable {
  readonly connections: PeerConnection[] = [];
  readonly #server: Server;

  static async listen(
    path: string,
    answer: (message: AnchorMessage, visitor: PeerConnection) => void,
  ): Promise<FakePeer> {
    const peer = new FakePeer(answer);
    await new Promise<void>((resolve) => peer.#server.listen(path, resolve));
    return peer;
  }

  private constructor(answer: (message: AnchorMessage, visitor: PeerConnection) => void) {
    this.#server = createServer((socket) => {
      const visitor = new PeerConnection(socket);
      const decoder = new FrameDecoder();
      this.connections.push(visitor);
      socket.on("error", () => {});
      socket.on("data", (chunk) => {
        for (const frame of decoder.push(chunk)) {
          const message = decodeMessage(frame);
          if (message === null) continue;
          visitor.received.push(message);
          answer(message, visitor);
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
});
