/** A frame to the agent, and the offset in the agent's stdin where it begins. */
export interface OutgoingFrame {
  readonly at: number;
  readonly text: string;
}

/**
 * Writes frames to the agent one after the other. Each is stored before it is written, and the anchor has accepted it
 * whole before the next. If this process dies, at most one frame is half written, and the next process writes the rest.
 */
export class AcpFrameWriter {
  readonly #write: (bytes: Uint8Array) => Promise<void>;
  #offset: number;
  #last: Promise<unknown> = Promise.resolve();
  /** A frame was written and not yet accepted. */
  isWriting = false;

  /** `accepted`: bytes of stdin that the anchor has accepted; `lastFrame`: the frame that was last stored. */
  constructor(
    write: (bytes: Uint8Array) => Promise<void>,
    accepted = 0,
    lastFrame: OutgoingFrame | null = null,
  ) {
    this.#write = write;
    this.#offset = accepted;
    const rest =
      lastFrame === null ? null : Buffer.from(lastFrame.text).subarray(Math.max(0, accepted - lastFrame.at));
    if (rest !== null && rest.length > 0) this.#enqueue(() => this.#writeBytes(rest)).catch(() => undefined);
  }

  send(message: object, store: (frame: OutgoingFrame) => Promise<void>): Promise<void> {
    return this.#enqueue(async () => {
      const text = `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`;
      await store({ at: this.#offset, text });
      await this.#writeBytes(Buffer.from(text));
    });
  }

  async #writeBytes(bytes: Uint8Array): Promise<void> {
    this.isWriting = true;
    try {
      await this.#write(bytes);
    } finally {
      this.isWriting = false;
    }
    this.#offset += bytes.length;
  }

  #enqueue(work: () => Promise<void>): Promise<void> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => undefined);
    return done;
  }
}
