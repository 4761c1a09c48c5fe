import { closeSync, constants, openSync } from "node:fs";
import { connect, Socket } from "node:net";
import { basename, dirname, join } from "node:path";
import { errnoCode } from "../../home/errno.js";
import { socketAddress } from "../../home/local-socket.js";
import { requireOwnSocket } from "../../home/path-trust.js";
import { FrameDecoder, MalformedFrame } from "./frame.js";
import { type AnchorMessage, decodeMessage, type MessageFields } from "./message-codec.js";
import { type PipeProof, pipeProof } from "./pipe-proof.js";

/**
 * Receives the messages of a connection. It is replaced when the connection changes its purpose (handshake, then link).
 */
export interface ConnectionListener {
  message(message: AnchorMessage): void;
  /** Always the last call. `error` is set if the connection did not end in order. */
  closed(error: Error | null): void;
}

/** A socket that is being connected, and what its server has to prove first. */
interface SocketConnection {
  readonly socket: Socket;
  readonly proof: PipeProof | null;
}

/** A connection that carries messages instead of bytes. */
export class MessageConnection {
  readonly #socket: Socket;
  readonly #decoder = new FrameDecoder();
  #error: Error | null = null;
  /** Null: the peer needs to prove nothing, or has done so. Until then, frames are kept. */
  #proof: PipeProof | null;
  readonly #unsent: Buffer[] = [];
  listener: ConnectionListener;

  constructor({ socket, proof }: SocketConnection, listener: ConnectionListener) {
    this.#socket = socket;
    this.#proof = proof;
    this.listener = listener;
    if (proof !== null) socket.write(proof.challenge);
    socket.on("data", (chunk) => this.#receive(chunk));
    socket.on("error", (error) => {
      this.#error ??= error;
    });
    socket.on("close", () => this.listener.closed(this.#error));
  }

  /** Does nothing after the connection has ended. */
  send(frame: Buffer): void {
    if (this.#proof !== null) this.#unsent.push(frame);
    else if (this.#socket.writable) this.#socket.write(frame);
  }

  close(): void {
    this.#socket.destroy();
  }

  /** Sets whether this connection keeps the process alive. */
  keepAlive(keep: boolean): void {
    if (keep) this.#socket.ref();
    else this.#socket.unref();
  }

  #receive(chunk: Buffer): void {
    if (this.#proof === null) return this.#decode(chunk);
    try {
      const rest = this.#proof.take(chunk);
      if (rest === null) return;
      this.#proof = null;
      for (const frame of this.#unsent.splice(0)) this.send(frame);
      this.#decode(rest);
    } catch (error) {
      this.#error ??= error as Error;
      this.#socket.destroy();
    }
  }

  #decode(chunk: Buffer): void {
    try {
      for (const frame of this.#decoder.push(chunk)) {
        // The listener may have closed the connection after an earlier frame of this chunk.
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
 * Connects to a socket file of this user. Fails with UnsafePath if another user could have created the socket. The path
 * of a state directory can be longer than a socket address allows; then the path goes through a descriptor of the
 * directory in /proc. The connect happens within this call, so the descriptor can be closed at once.
 */
export function connectToSocket(path: string): SocketConnection {
  const address = socketAddress(path);
  try {
    requireOwnSocket(path);
    const proof = address === path ? null : pipeProof(path);
    return { socket: proof === null ? connectToFile(path) : connect({ path: address }), proof };
  } catch (error) {
    return { socket: new Socket().destroy(error as Error), proof: null };
  }
}

function connectToFile(path: string): Socket {
  if (Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES) return connect({ path });
  let directory: number;
  try {
    directory = openSync(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
  } catch {
    // The missing directory becomes an error of the connection, like other errors.
    return connect({ path: `/proc/self/fd/-1/${basename(path)}` });
  }
  try {
    return connect({ path: `/proc/self/fd/${directory}/${basename(path)}` });
  } finally {
    closeSync(directory);
  }
}

/** True if no process listens on the socket: the file is gone, or the process that created it is. */
export function isNotListening(error: unknown): boolean {
  const code = errnoCode(error);
  return code === "ENOENT" || code === "ECONNREFUSED" || code === "ENOTDIR";
}

/** True if a launcher listens in an instance's directory. */
export function isLauncherListening(instanceDir: string): Promise<boolean> {
  return isListening(join(instanceDir, "launcher.sock"));
}

/**
 * True if a process listens on the socket. The probe connects and closes without a message, which launchers and anchors
 * ignore. Also true if it cannot be determined.
 */
export function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const { socket } = connectToSocket(path);
    const settle = (listens: boolean): void => {
      socket.destroy();
      resolve(listens);
    };
    socket.on("connect", () => settle(true));
    socket.on("error", (error) => settle(!isNotListening(error)));
  });
}

/** The answer to the first frame. The connection stays open only in the case `answered`. */
export type HandshakeResult =
  | { readonly type: "answered" }
  | { readonly type: "failed"; readonly failure: MessageFields<"failed"> }
  | { readonly type: "refused"; readonly refusal: MessageFields<"refused"> }
  /** The connection failed or ended before an answer. */
  | { readonly type: "closed"; readonly error: Error | null }
  | { readonly type: "silent" };

interface HandshakeOptions<N extends "welcome" | "launcher"> {
  readonly path: string;
  readonly frame: Buffer;
  readonly expected: N;
  readonly timeoutMs: number;
  /** Called synchronously with the answer, so that later messages of the same packet reach the new listener. */
  readonly onAnswer: (answer: MessageFields<N>, connection: MessageConnection) => ConnectionListener;
}

/** A full backlog is drained within microseconds, but many simultaneous starts can fill it. */
const BACKLOG_RETRY_MS = 2;

/** Connects, sends the first frame and waits for the answer. */
export async function handshake<N extends "welcome" | "launcher">(
  options: HandshakeOptions<N>,
): Promise<HandshakeResult> {
  const deadline = performance.now() + options.timeoutMs;
  for (;;) {
    const answer = await tryHandshake(options);
    // connect(2) on a local socket does not wait for room in the backlog. Nothing has been sent yet.
    const backlogFull = answer.type === "closed" && errnoCode(answer.error) === "EAGAIN";
    if (!backlogFull || performance.now() > deadline) return answer;
    await new Promise((resolve) => setTimeout(resolve, BACKLOG_RETRY_MS));
  }
}

function tryHandshake<N extends "welcome" | "launcher">(
  options: HandshakeOptions<N>,
): Promise<HandshakeResult> {
  return new Promise((resolve) => {
    const settle = (answer: HandshakeResult): void => {
      clearTimeout(timer);
      if (answer.type !== "answered") connection.close();
      resolve(answer);
    };
    const timer = setTimeout(() => settle({ type: "silent" }), options.timeoutMs);
    const connection = new MessageConnection(connectToSocket(options.path), {
      message(message) {
        if (message.name === "failed") return settle({ type: "failed", failure: message });
        if (message.name === "refused") return settle({ type: "refused", refusal: message });
        if (message.name !== options.expected) return;
        connection.listener = options.onAnswer(message as MessageFields<N>, connection);
        settle({ type: "answered" });
      },
      closed: (error) => settle({ type: "closed", error }),
    });
    connection.send(options.frame);
  });
}
