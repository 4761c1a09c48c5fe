/** A frame on its way to the agent: its text, and the offset in the agent's stdin where it begins. */
export interface OutgoingFrame {
  readonly at: number;
  readonly text: string;
}

/**
 * What is said to the agent: one frame after the other, each kept before it is written and whole in the anchor before
 * the next. So at most one can be half written when this process dies, and the next process writes the rest of it.
 */
export class AcpFrameWriter {
  readonly #write: (bytes: Uint8Array) => Promise<void>;
  #offset: number;
  #last: Promise<unknown> = Promise.resolve();
  /** Something has been written that the agent has not taken yet. */
  isWriting = false;

  /** `accepted`: how much of its stdin the agent's anchor holds already; `kept`: the frame that was last on its way. */
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

  send(message: object, keep: (frame: OutgoingFrame) => Promise<void>): Promise<void> {
    return this.#enqueue(async () => {
      const text = `${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`;
      await keep({ at: this.#offset, text });
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
