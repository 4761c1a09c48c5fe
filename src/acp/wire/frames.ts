import { defaults } from "../../defaults.js";
import { AcpClosed } from "../../errors.js";
import { redactedExcerpt } from "../../text/redact.js";
import { parseRpcMessage, type RpcMessage } from "./message.js";

/** Part of a stream and its offset. */
export interface StreamChunk {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** `end` is the offset after the frame: when its effects are stored, everything before `end` may be dropped. */
export type AcpFrame =
  | { readonly type: "message"; readonly end: number; readonly bytes: number; readonly message: RpcMessage }
  | { readonly type: "malformed"; readonly end: number; readonly why: string; readonly excerpt: string }
  | { readonly type: "blank"; readonly end: number };

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/**
 * Splits an agent's stdout into frames, one per line. It starts at the end of a frame and counts offsets, so a stream
 * that is read again from an `end` gives every frame once. A line is collected in a buffer that doubles, which takes
 * linear time for chunks of any size.
 */
export class AcpFrameReader {
  readonly #maxBytes: number;
  /** The offset of the next byte. */
  #offset: number;
  #line: Buffer = Buffer.alloc(0);
  #buffered = 0;

  constructor(startAt: number, maxBytes: number = defaults.acpFrameBytes) {
    this.#offset = startAt;
    this.#maxBytes = maxBytes;
  }

  /** Lazy: a frame is parsed when it is requested. A chunk must be consumed before the next is pushed. */
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
    // So that a stream of blank lines is acknowledged too.
    if (skippedTo !== null) yield { type: "blank", end: skippedTo };
  }

  /** Call at the end of the stream. Null: it ended with a whole line. */
  finish(): AcpFrame | null {
    const rest = this.#line.subarray(0, this.#buffered);
    this.#buffered = 0;
    if (isBlank(rest)) return null;
    return {
      type: "malformed",
      end: this.#offset,
      why: "incomplete line",
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
    // Not reused: large frames are rare.
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
        `it sent a frame of more than ${this.#maxBytes} bytes, which was ignored`,
      );
  }
}

function isBlank(line: Buffer): boolean {
  return line.every((byte) => byte === CARRIAGE_RETURN || byte === 0x20 || byte === 0x09);
}

/** Groups frames that are handled together. */
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
  // Frames before the one that failed are still handled.
  if (batch.length > 0) yield batch;
  if (failure !== null) throw failure as Error;
}

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
