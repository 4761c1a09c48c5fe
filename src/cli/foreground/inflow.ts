import type { StreamName } from "../../anchor/host.js";
import type { OutputChunk } from "../../supervisor/api.js";

/**
 * One stream of a run, as it arrives over connections that may break. What has been handed out is never asked for
 * again; what has only arrived is forgotten with its connection and comes again with the next.
 */
export class Inflow {
  readonly #stream: StreamName;
  #waiting: OutputChunk[] = [];
  #next = 0;
  #written = 0;
  #over = false;
  #wake: () => void = () => {};

  constructor(stream: StreamName) {
    this.#stream = stream;
  }

  /** The first byte that has not been handed out. */
  get next(): number {
    return this.#next;
  }

  /** The first byte that whoever takes them may not have written yet. */
  get written(): number {
    return this.#written;
  }

  arrive(offset: number, bytes: Uint8Array): void {
    this.#waiting.push({ stream: this.#stream, offset, bytes });
    this.#wake();
  }

  forget(): void {
    this.#waiting = [];
  }

  /** Nothing more will arrive. */
  end(): void {
    this.#over = true;
    this.#wake();
  }

  /** `written` is told when whoever takes a piece asks for the next. */
  async *take(written: (offset: number) => void): AsyncGenerator<OutputChunk, void, undefined> {
    for (;;) {
      const chunk = this.#waiting.shift();
      if (chunk !== undefined) {
        this.#next = chunk.offset + chunk.bytes.length;
        yield chunk;
        this.#written = this.#next;
        written(this.#written);
      } else if (this.#over) return;
      else await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
