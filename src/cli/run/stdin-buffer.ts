import { StdinClosed } from "../../errors.js";
import { deferred, type Deferred } from "../../async/deferred.js";

/** Sends input over one connection. */
export interface StdinSender {
  send(offset: number, bytes: Uint8Array): void;
  end(): void;
}

interface StdinChunk {
  readonly at: number;
  readonly bytes: Uint8Array;
  readonly done: Deferred<void>;
}

/** The stdin of a run by offsets: kept until its anchor has it, and sent again on the next connection. */
export class StdinBuffer {
  readonly #runId: string;
  #sender: StdinSender | null = null;
  #chunks: StdinChunk[] = [];
  #written = 0;
  #ended = false;
  #rejected: string | null = null;

  constructor(runId: string) {
    this.#runId = runId;
  }

  /** Resolves when the anchor has every byte. */
  write(bytes: Uint8Array): Promise<void> {
    if (this.#rejected !== null) return Promise.reject(new StdinClosed(this.#runId, this.#rejected));
    const chunk = { at: this.#written, bytes, done: deferred<void>() };
    this.#written += bytes.length;
    this.#chunks.push(chunk);
    this.#sender?.send(chunk.at, bytes);
    return chunk.done.promise;
  }

  /** After a rejection the end is not sent: other clients may be typing. */
  end(): void {
    this.#ended = true;
    if (this.#rejected === null) this.#sender?.end();
  }

  /** A new connection; the anchor has `accepted` bytes. */
  attach(sender: StdinSender, accepted: number): void {
    this.#sender = sender;
    if (accepted > this.#written) this.reject("others have typed into it meanwhile");
    if (this.#rejected !== null) return;
    this.acknowledge(accepted);
    for (const { at, bytes } of this.#chunks) sender.send(at, bytes);
    if (this.#ended) sender.end();
  }

  detach(): void {
    this.#sender = null;
  }

  acknowledge(offset: number): void {
    const held = this.#chunks.filter(({ at, bytes }) => at + bytes.length <= offset);
    this.#chunks = this.#chunks.slice(held.length);
    for (const { done } of held) done.resolve();
  }

  /** The run takes no more input. */
  reject(why: string): void {
    this.#rejected ??= why;
    const chunks = this.#chunks;
    this.#chunks = [];
    for (const { done } of chunks) done.reject(new StdinClosed(this.#runId, this.#rejected));
  }
}
