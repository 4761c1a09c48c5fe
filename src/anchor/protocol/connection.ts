import { closeSync, constants, openSync } from "node:fs";
import { connect, Socket } from "node:net";
import { basename, dirname, join } from "node:path";
import { errnoCode } from "../../home/errno.js";
import { requireOwnSocket } from "../../home/path-trust.js";
import { FrameDecoder, MalformedFrame } from "./frame-decoder.js";
import { type AnchorMessage, decodeMessage } from "./message-codec.js";

/** Who is told what comes over a wire. Replaced when a connection changes its meaning (handshake, then link). */
export interface ConnectionListener {
  message(message: AnchorMessage): void;
  /** Always the last. The error is why, when it was not an orderly end. */
  closed(error: Error | null): void;
}

/** A connection that speaks messages instead of bytes. */
export class MessageConnection {
  readonly #socket: Socket;
  readonly #decoder = new FrameDecoder();
  #error: Error | null = null;
  listener: ConnectionListener;

  constructor(socket: Socket, listener: ConnectionListener) {
    this.#socket = socket;
    this.listener = listener;
    socket.on("data", (chunk) => this.#receive(chunk));
    socket.on("error", (error) => {
      this.#error ??= error;
    });
    socket.on("close", () => this.listener.closed(this.#error));
  }

  /** After the connection has ended, a no-op. */
  send(frame: Buffer): void {
    if (this.#socket.writable) this.#socket.write(frame);
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Whether this connection alone keeps the process alive. */
  keepAlive(keep: boolean): void {
    if (keep) this.#socket.ref();
    else this.#socket.unref();
  }

  #receive(chunk: Buffer): void {
    try {
      for (const frame of this.#decoder.push(chunk)) {
        // The listener may have closed the wire over an earlier frame of this chunk.
        if (this.#socket.destroyed) return;
        const message = decodeMessage(frame);
        if (message !== null) this.listener.message(message);
      }
    } catch (error) {
      if (!(error instanceof MalformedFrame)) throw error;
      this.#error ??= error;
      this.#socket.destroy();
    }
  }
}

/** `sun_path` holds 108 bytes with the final NUL. */
const MAX_SOCKET_PATH_BYTES = 107;

/**
 * Connect to a socket file of this user. Rejects with UnsafePath if another user could have created the socket. A state directory can lie deeper than a socket address is long; then the
 * way leads through a descriptor of the directory, whose name is always short.
 * The connect itself happens within this call, so the descriptor need not outlive it.
 */
export function connectToSocket(path: string): Socket {
  try {
    requireOwnSocket(path);
  } catch (error) {
    return new Socket().destroy(error as Error);
  }
  if (Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES) return connect({ path });
  let directory: number;
  try {
    directory = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
  } catch {
    // Its absence is the connection's error like any other, and is reported where those are.
    return connect({ path: `/proc/self/fd/-1/${basename(path)}` });
  }
  try {
    return connect({ path: `/proc/self/fd/${directory}/${basename(path)}` });
  } finally {
    closeSync(directory);
  }
}

/** Nobody listens there: the file is gone, or whoever made it is. */
export function isNotListening(error: unknown): boolean {
  const code = errnoCode(error);
  return code === "ENOENT" || code === "ECONNREFUSED" || code === "ENOTDIR";
}

/**
 * Whether a launcher listens in an instance's directory. It is connected to and left without a word, which it takes
 * for a guest who changed his mind. True also when that cannot be told.
 */
export function isLauncherListening(instanceDir: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connectToSocket(join(instanceDir, "launcher.sock"));
    const settle = (listens: boolean): void => {
      socket.destroy();
      resolve(listens);
    };
    socket.on("connect", () => settle(true));
    socket.on("error", (error) => settle(!isNotListening(error)));
  });
}
