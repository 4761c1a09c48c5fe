import type { StreamName } from "../../anchor/host-interface.js";
import { deferred, type Deferred } from "../../async/deferred.js";
import { StdinClosed } from "../../errors.js";
import type { OutputChunk } from "../../supervisor/api.js";

/** Sends input over one connection. */
interface StdinSender {
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
  #written: number;
  #ended = false;
  #rejected: string | null = null;

  /** `from`: the offset of the first byte to write; another process has written the bytes before it. */
  constructor(runId: string, from = 0) {
    this.#runId = runId;
    this.#written = from;
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
    if (accepted > this.#written) this.reject("another client has written to it meanwhile");
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

/**
 * One stream of a run over connections that may break. Bytes that were read are not requested again; bytes that only
 * arrived are dropped with their connection and arrive again with the next.
 */
export class OutputBuffer {
  readonly #stream: StreamName;
  #chunks: OutputChunk[] = [];
  #nextOffset: number;
  #writtenOffset: number;
  #ended = false;
  #wake: () => void = () => {};

  constructor(stream: StreamName, from = 0) {
    this.#stream = stream;
    this.#nextOffset = from;
    this.#writtenOffset = from;
  }

  /** The first byte that was not read. */
  get nextOffset(): number {
    return this.#nextOffset;
  }

  /** The first byte that the reader may not have written yet. */
  get writtenOffset(): number {
    return this.#writtenOffset;
  }

  push(offset: number, bytes: Uint8Array): void {
    this.#chunks.push({ stream: this.#stream, offset, bytes });
    this.#wake();
  }

  discard(): void {
    this.#chunks = [];
  }

  /** No more bytes will arrive. */
  end(): void {
    this.#ended = true;
    this.#wake();
  }

  /** `written` is called when the reader requests the next piece. */
  async *read(written: (offset: number) => void): AsyncGenerator<OutputChunk, void, undefined> {
    for (;;) {
      const chunk = this.#chunks.shift();
      if (chunk !== undefined) {
        this.#nextOffset = chunk.offset + chunk.bytes.length;
        yield chunk;
        this.#writtenOffset = this.#nextOffset;
        written(this.#writtenOffset);
      } else if (this.#ended) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
