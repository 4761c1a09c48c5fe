import { HoldfastError } from "../errors.js";
import { maxFrameBytes } from "./protocol.js";

/** `u32 length, u8 type`, then fields of `u8 tag, u32 length, value`; little-endian throughout. */
const FRAME_HEAD = 5;
const FIELD_HEAD = 5;
const TWO_32 = 0x1_0000_0000;
/** Above this in the high word, a u64 is no safe integer. */
const SAFE_HIGH = 0x1f_ffff;

/** What arrived is not the protocol. The connection it came from is of no further use. */
export class MalformedFrame extends HoldfastError {
  constructor(what: string) {
    super("ANCHOR_MALFORMED_FRAME", `the anchor connection carried ${what}; it will be closed`);
  }
}

export interface Frame {
  readonly type: number;
  /** The fields, still encoded. A view of the received bytes. */
  readonly body: Buffer;
}

/** Cuts a byte stream into frames. Knows nothing of their meaning but the length each type may have. */
export class FrameDecoder {
  #parts: Buffer[] = [];
  #held = 0;

  /** All frames that `chunk` completes, in order. Throws MalformedFrame; then the stream cannot be resumed. */
  push(chunk: Buffer): Frame[] {
    const frames: Frame[] = [];
    let bytes = chunk;
    if (this.#held > 0) {
      this.#parts.push(chunk);
      this.#held += chunk.length;
      if (this.#held < this.#wanted()) return frames;
      bytes = this.#take();
    }
    let at = 0;
    while (bytes.length - at >= FRAME_HEAD) {
      const size = frameSize(bytes, at);
      if (bytes.length - at < size) break;
      frames.push({ type: bytes.readUInt8(at + 4), body: bytes.subarray(at + FRAME_HEAD, at + size) });
      at += size;
    }
    if (at < bytes.length) {
      const rest = bytes.subarray(at);
      this.#parts.push(rest);
      this.#held = rest.length;
    }
    return frames;
  }

  /** Bytes needed before anything can be decoded: one concatenation per frame, however small the chunks. */
  #wanted(): number {
    if (this.#held < FRAME_HEAD) return FRAME_HEAD;
    const first = this.#parts[0];
    if (first !== undefined && first.length >= FRAME_HEAD) return frameSize(first, 0);
    this.#parts = [Buffer.concat(this.#parts, this.#held)];
    return this.#wanted();
  }

  #take(): Buffer {
    const [first] = this.#parts;
    const whole = this.#parts.length === 1 && first ? first : Buffer.concat(this.#parts, this.#held);
    this.#parts = [];
    this.#held = 0;
    return whole;
  }
}

function frameSize(bytes: Buffer, at: number): number {
  const length = bytes.readUInt32LE(at);
  if (length === 0) throw new MalformedFrame("a frame without a type");
  const type = bytes.readUInt8(at + 4);
  if (length > maxFrameBytes(type)) throw new MalformedFrame(`a frame of ${length} bytes (type ${type})`);
  return 4 + length;
}

/** Walks the fields of one frame. */
export class FieldReader {
  readonly #body: Buffer;
  #next = 0;
  #at = 0;
  #end = 0;
  tag = 0;

  constructor(body: Buffer) {
    this.#body = body;
  }

  /** False at the end of the frame. */
  advance(): boolean {
    const left = this.#body.length - this.#next;
    if (left === 0) return false;
    if (left < FIELD_HEAD) throw new MalformedFrame("a cut-off field");
    const length = this.#body.readUInt32LE(this.#next + 1);
    if (length > left - FIELD_HEAD) throw new MalformedFrame("a field longer than its frame");
    this.tag = this.#body.readUInt8(this.#next);
    this.#at = this.#next + FIELD_HEAD;
    this.#end = this.#at + length;
    this.#next = this.#end;
    return true;
  }

  int(): number {
    this.#mustBeInteger();
    const high = this.#body.readUInt32LE(this.#at + 4);
    if (high > SAFE_HIGH) throw new MalformedFrame(`a number beyond 2^53 (tag ${this.tag})`);
    return high * TWO_32 + this.#body.readUInt32LE(this.#at);
  }

  id(): string {
    this.#mustBeInteger();
    return this.#body.readBigUInt64LE(this.#at).toString();
  }

  text(): string {
    const bytes = this.bytes();
    if (bytes.includes(0)) throw new MalformedFrame(`a NUL in a text (tag ${this.tag})`);
    // Not fatal: a message may quote a path that is no UTF-8.
    return bytes.toString("utf8");
  }

  bytes(): Buffer {
    return this.#body.subarray(this.#at, this.#end);
  }

  #mustBeInteger(): void {
    if (this.#end - this.#at !== 8)
      throw new MalformedFrame(`a number that is not 8 bytes (tag ${this.tag})`);
  }
}
