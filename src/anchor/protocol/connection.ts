import type { Socket } from "node:net";
import { FrameDecoder, MalformedFrame } from "./frame-decoder.js";
import { decodeMessage, type AnchorMessage } from "./message-codec.js";

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
