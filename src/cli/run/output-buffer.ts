import type { StreamName } from "../../anchor/host.js";
import type { OutputChunk } from "../../supervisor/api.js";

/**
 * One stream of a run over connections that may break. Bytes that were read are not requested again; bytes that only
 * arrived are dropped with their connection and arrive again with the next.
 */
export class OutputBuffer {
  readonly #stream: StreamName;
  #chunks: OutputChunk[] = [];
  #nextOffset = 0;
  #writtenOffset = 0;
  #ended = false;
  #wake: () => void = () => {};

  constructor(stream: StreamName) {
    this.#stream = stream;
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

  /** `written` is called when the reader asks for the next piece. */
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
