import { defaults } from "../../defaults.js";
import { AcpClosed } from "../../errors.js";
import { redactedExcerpt } from "../../text/truncate.js";
import { parseRpcMessage, type RpcMessage } from "./message.js";

/** Part of a stream, by its place in it. */
export interface StreamChunk {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** `end` is the offset after it: once its effects are kept, everything before `end` may be forgotten. */
export type AcpFrame =
  | { readonly type: "message"; readonly end: number; readonly bytes: number; readonly message: RpcMessage }
  | { readonly type: "malformed"; readonly end: number; readonly why: string; readonly excerpt: string }
  | { readonly type: "blank"; readonly end: number };

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/**
 * An agent's stdout as frames: one line each. Begins at a frame's end and knows where it is, so a stream that is read
 * again from there gives every frame once. A line is held once, in a buffer that doubles: linear, however small the pieces.
 */
export class AcpFrameReader {
  readonly #maxBytes: number;
  /** Where the next byte belongs. */
  #offset: number;
  #line: Buffer = Buffer.alloc(0);
  #buffered = 0;

  constructor(startAt: number, maxBytes: number = defaults.acpFrameBytes) {
    this.#offset = startAt;
    this.#maxBytes = maxBytes;
  }

  /** Lazy: a frame is parsed when it is asked for. A chunk must be taken whole before the next is pushed. */
  *push(chunk: StreamChunk): Generator<AcpFrame, void, undefined> {
    if (chunk.offset > this.#offset)
      throw new AcpClosed(
        "output-lost",
        `${chunk.offset - this.#offset} bytes of its output are missing after offset ${this.#offset}`,
      );
    const { buffer, byteOffset, byteLength } = chunk.bytes;
    const bytes = Buffer.from(buffer, byteOffset, byteLength);
    let start = Math.min(this.#offset - chunk.offset, bytes.length);
    let skippedTo: number | null = null;
    for (let end = bytes.indexOf(LINE_FEED, start); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
      const line = this.#completeLine(bytes.subarray(start, end));
      start = end + 1;
      this.#offset = chunk.offset + start;
      if (isBlank(line)) {
        skippedTo = this.#offset;
        continue;
      }
      skippedTo = null;
      yield this.#frame(line);
    }
    this.#buffer(bytes.subarray(start));
    this.#offset = Math.max(this.#offset, chunk.offset + bytes.length);
    // So that a stream of nothing but blank lines is let go of, too.
    if (skippedTo !== null) yield { type: "blank", end: skippedTo };
  }

  /** The stream has ended. Null: at the end of a line. */
  finish(): AcpFrame | null {
    const rest = this.#line.subarray(0, this.#buffered);
    this.#buffered = 0;
    if (isBlank(rest)) return null;
    return {
      type: "malformed",
      end: this.#offset,
      why: "ended in the middle",
      excerpt: redactedExcerpt(rest),
    };
  }

  #frame(line: Buffer): AcpFrame {
    const message = parseRpcMessage(line);
    return typeof message === "string"
      ? { type: "malformed", end: this.#offset, why: message, excerpt: redactedExcerpt(line) }
      : { type: "message", end: this.#offset, bytes: line.length, message };
  }

  #completeLine(rest: Buffer): Buffer {
    if (this.#buffered === 0) {
      this.#checkSize(rest.length);
      return rest;
    }
    this.#buffer(rest);
    const line = this.#line.subarray(0, this.#buffered);
    // Not kept for the next one: a giant frame is rare.
    this.#line = Buffer.alloc(0);
    this.#buffered = 0;
    return line;
  }

  #buffer(part: Buffer): void {
    if (part.length === 0) return;
    const size = this.#buffered + part.length;
    this.#checkSize(size);
    if (size > this.#line.length) {
      const larger = Buffer.allocUnsafe(Math.min(this.#maxBytes, Math.max(size, 2 * this.#line.length)));
      this.#line.copy(larger, 0, 0, this.#buffered);
      this.#line = larger;
    }
    part.copy(this.#line, this.#buffered);
    this.#buffered = size;
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

/** Frames to be handled together. */
export function* inBatches(frames: Iterable<AcpFrame>): Generator<readonly AcpFrame[], void, undefined> {
  let batch: AcpFrame[] = [];
  let failure: unknown = null;
  try {
    for (const frame of frames) {
      batch.push(frame);
      if (batch.length < defaults.acpBatchFrames) continue;
      yield batch;
      batch = [];
    }
  } catch (error) {
    failure = error;
  }
  // What came before the frame that cannot be read was said all the same.
  if (batch.length > 0) yield batch;
  if (failure !== null) throw failure as Error;
}
