import { defaults } from "../../defaults.js";
import { AcpClosed } from "../../errors.js";
import { excerpt } from "./excerpt.js";
import { type Message, parseMessage } from "./message.js";

/** Part of a stream, by its place in it. */
export interface Chunk {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** `end` is the offset after it: once its effects are kept, everything before `end` may be forgotten. */
export type Frame =
  | { readonly type: "message"; readonly end: number; readonly bytes: number; readonly message: Message }
  | { readonly type: "malformed"; readonly end: number; readonly why: string; readonly excerpt: string }
  | { readonly type: "blank"; readonly end: number };

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/**
 * An agent's stdout as frames: one line each. Begins at a frame's end and knows where it is, so a stream that is read
 * again from there gives every frame once. A line is held once, in a buffer that doubles: linear, however small the pieces.
 */
export class FrameReader {
  readonly #maxBytes: number;
  /** Where the next byte belongs. */
  #at: number;
  #line: Buffer = Buffer.alloc(0);
  #held = 0;

  constructor(startAt: number, maxBytes: number = defaults.acpFrameBytes) {
    this.#at = startAt;
    this.#maxBytes = maxBytes;
  }

  /** Lazy: a frame is parsed when it is asked for. A chunk must be taken whole before the next is pushed. */
  *push(chunk: Chunk): Generator<Frame, void, undefined> {
    if (chunk.offset > this.#at)
      throw new AcpClosed(
        "output-lost",
        `${chunk.offset - this.#at} bytes of its output are missing after offset ${this.#at}`,
      );
    const { buffer, byteOffset, byteLength } = chunk.bytes;
    const bytes = Buffer.from(buffer, byteOffset, byteLength);
    let start = Math.min(this.#at - chunk.offset, bytes.length);
    let skippedTo: number | null = null;
    for (let end = bytes.indexOf(LINE_FEED, start); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
      const line = this.#whole(bytes.subarray(start, end));
      start = end + 1;
      this.#at = chunk.offset + start;
      if (isBlank(line)) {
        skippedTo = this.#at;
        continue;
      }
      skippedTo = null;
      yield this.#frame(line);
    }
    this.#hold(bytes.subarray(start));
    this.#at = Math.max(this.#at, chunk.offset + bytes.length);
    // So that a stream of nothing but blank lines is let go of, too.
    if (skippedTo !== null) yield { type: "blank", end: skippedTo };
  }

  /** The stream has ended. Null: at the end of a line. */
  finish(): Frame | null {
    const rest = this.#line.subarray(0, this.#held);
    this.#held = 0;
    if (isBlank(rest)) return null;
    return { type: "malformed", end: this.#at, why: "ended in the middle", excerpt: excerpt(rest) };
  }

  #frame(line: Buffer): Frame {
    const message = parseMessage(line);
    return typeof message === "string"
      ? { type: "malformed", end: this.#at, why: message, excerpt: excerpt(line) }
      : { type: "message", end: this.#at, bytes: line.length, message };
  }

  #whole(rest: Buffer): Buffer {
    if (this.#held === 0) {
      this.#checkSize(rest.length);
      return rest;
    }
    this.#hold(rest);
    const line = this.#line.subarray(0, this.#held);
    // Not kept for the next one: a giant frame is rare.
    this.#line = Buffer.alloc(0);
    this.#held = 0;
    return line;
  }

  #hold(part: Buffer): void {
    if (part.length === 0) return;
    const size = this.#held + part.length;
    this.#checkSize(size);
    if (size > this.#line.length) {
      const larger = Buffer.allocUnsafe(Math.min(this.#maxBytes, Math.max(size, 2 * this.#line.length)));
      this.#line.copy(larger, 0, 0, this.#held);
      this.#line = larger;
    }
    part.copy(this.#line, this.#held);
    this.#held = size;
  }

  #checkSize(bytes: number): void {
    if (bytes > this.#maxBytes)
      throw new AcpClosed(
        "frame-too-large",
        `it sent a frame of more than ${this.#maxBytes} bytes; nothing of it was used`,
      );
  }
}

function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === CARRIAGE_RETURN || byte === 0x20 || byte === 0x09);
}
