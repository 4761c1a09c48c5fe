import { BadInput } from "../../errors.js";
import { maxFrameBytes } from "./messages.js";

const HEADER_BYTES = 5;
const UINT32_RANGE = 0x1_0000_0000;
const MAX_ID = 0xffff_ffff_ffff_ffffn;
/** For shorter texts, reserving the worst case (3 bytes per character) is cheaper than measuring. */
const MEASURE_FROM = 1024;

/** Builds one frame in one buffer. `what` names the field in errors about bad values. */
export class FrameEncoder {
  #bytes: Buffer;
  #position = HEADER_BYTES;

  constructor(type: number, sizeHint = 256) {
    this.#bytes = Buffer.allocUnsafe(sizeHint);
    this.#bytes.writeUInt8(type, 4);
  }

  int(tag: number, value: number, what: string): void {
    if (!Number.isSafeInteger(value) || value < 0) {
      throw new BadInput(what, `${what} must be a whole number of 0 or more, not ${value}; nothing was sent`);
    }
    const at = this.#startField(tag, 8);
    this.#bytes.writeUInt32LE(value % UINT32_RANGE, at);
    this.#bytes.writeUInt32LE(Math.floor(value / UINT32_RANGE), at + 4);
  }

  id(tag: number, value: string, what: string): void {
    if (!/^\d{1,20}$/.test(value) || BigInt(value) > MAX_ID) {
      throw new BadInput(what, `${what} must be a 64-bit number in decimal; nothing was sent`);
    }
    const at = this.#startField(tag, 8);
    this.#bytes.writeBigUInt64LE(BigInt(value), at);
  }

  text(tag: number, value: string, what: string): void {
    if (value.includes("\0")) throw new BadInput(what, `${what} contains a NUL character; nothing was sent`);
    const room = value.length < MEASURE_FROM ? value.length * 3 : Buffer.byteLength(value);
    this.#reserve(HEADER_BYTES + room);
    const written = this.#bytes.write(value, this.#position + HEADER_BYTES, "utf8");
    this.#startField(tag, written);
  }

  bytes(tag: number, value: Uint8Array): void {
    const at = this.#startField(tag, value.length);
    this.#bytes.set(value, at);
  }

  finish(): Buffer {
    const type = this.#bytes.readUInt8(4);
    const limit = maxFrameBytes(type);
    if (this.#position > limit) {
      throw new BadInput(
        "size",
        `the request is ${this.#position} bytes long, but at most ${limit} are possible; nothing was sent`,
      );
    }
    this.#bytes.writeUInt32LE(this.#position - 4, 0);
    return this.#bytes.subarray(0, this.#position);
  }

  /** Writes a field's header and returns the position of its value. */
  #startField(tag: number, length: number): number {
    this.#reserve(HEADER_BYTES + length);
    this.#bytes.writeUInt8(tag, this.#position);
    this.#bytes.writeUInt32LE(length, this.#position + 1);
    const at = this.#position + HEADER_BYTES;
    this.#position = at + length;
    return at;
  }

  #reserve(more: number): void {
    const wanted = this.#position + more;
    if (wanted <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafe(Math.max(wanted, this.#bytes.length * 2));
    this.#bytes.copy(grown, 0, 0, this.#position);
    this.#bytes = grown;
  }
}
